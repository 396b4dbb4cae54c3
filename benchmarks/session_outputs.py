"""What tools give back in made sessions: source files, searches, test runs, builds, logs, settings, web pages.

Every function takes the words of the work at hand, and draws from nothing else.
"""

from collections.abc import Mapping, Sequence

from benchmarks.session_words import Words

_OPENINGS: Mapping[str, Sequence[str]] = {
    "python": ('"""The $adjective $noun of $service."""', "import logging", "from $noun2.$noun import $type", "",
               "logger = logging.getLogger(__name__)", "$const = $number"),
    "typescript": ('import { $type } from "../$noun/$noun2";', 'import { logger } from "@/$noun3";', "",
                   "export const $const = $number;"),
    "go": ("package $noun", "", "import (", '\t"context"', '\t"fmt"', '\t"example.org/$service/$noun2"', ")", "",
           "const $type = $number"),
    "rust": ("use std::collections::HashMap;", "use crate::$noun::$type;", "", "const $const: usize = $number;"),
    "java": ("package org.example.$noun;", "", "import java.util.List;", "import org.example.$noun2.$type;"),
}  # fmt: skip
_HEADS: Mapping[str, Sequence[str]] = {
    "python": ("def $func($noun: $type, $noun2: int = $few) -> list[$type2]:", "async def $func(self, $noun: str):",
               "def $func(${noun}s: Iterable[$type], *, $adjective: bool = False) -> dict[str, $type2]:"),
    "typescript": ("export async function $func($noun: $type): Promise<$type2[]> {",
                   "const $func = (${noun}s: $type[], $noun2 = $few): $type2 | undefined => {"),
    "go": ("func $func(ctx context.Context, $noun *$type) ([]$type2, error) {",
           "func (s *$type) $func($noun string, $noun2 int) error {"),
    "rust": ("pub fn $func($noun: &$type, $noun2: usize) -> Result<Vec<$type2>, $type3> {",
             "    fn $func(&mut self, $noun: String) -> Option<$type> {"),
    "java": ("    public List<$type> $func($type2 $noun, int $noun2) throws $type3 {",
             "    private static boolean $func(String $noun, $type $noun2) {"),
}  # fmt: skip
_BODIES: Mapping[str, Sequence[str]] = {
    "python": ('    """Return the $adjective $noun, or nothing where the $noun2 is $adjective2."""',
               "    if not $noun.$noun2:", "        return []", "    for $noun in ${noun2}s:",
               '        logger.debug("$verb %s of %s", $noun, $noun2)', "        $noun2 = $func($noun, $few)",
               "    with self._lock:", "        self._${noun}s[$noun2.id] = $type($noun=$noun, $noun2=$noun2)",
               '        raise $type(f"no $noun for {$noun2!r}")', "    return sorted($noun, key=$func)",
               "    ${noun}s = [$func(each) for each in $noun2 if each.$noun > $number]",
               "    # The $noun is $adjective until the $noun2 has been ${verb}ed.", "    try:",
               "    except $type as error:", "        yield from self.$func($noun, $noun2=$noun2)", "",
               "    $noun = await self._$noun2.$verb($noun3, timeout=$few)",
               "    assert $noun.$noun2 is not None, $noun"),
    "typescript": ("  const $noun = await $func($noun2, { $noun3: $number });", "  if (!$noun?.$noun2) {",
                   "    return undefined;", "  }", "  for (const $noun of ${noun2}s) {",
                   "    $noun.$noun2 = $func($noun3 ?? []);", '  logger.warn("$adjective $noun", { $noun2 });',
                   "  return ${noun}s.filter((each) => each.$noun2 !== $noun3);", "  // $adjective ${noun}s first.",
                   '  throw new $type(`$noun is $adjective`);', "  const { $noun, $noun2 } = this.$noun3;", "",
                   "  await Promise.all(${noun}s.map(($noun) => this.$func($noun)));"),
    "go": ("\t$noun, err := s.$func(ctx, $noun2)", "\tif err != nil {",
           '\t\treturn nil, fmt.Errorf("$verb $noun: %w", err)', "\t}", "\tfor _, $noun := range ${noun2}s {",
           "\t\t$noun.$type = $func($noun2, $few)", "\tdefer s.mu.Unlock()", "\tselect {", "\tcase <-ctx.Done():",
           "\t\treturn ctx.Err()", "\t// $func is $adjective while the $noun is held.", "",
           "\treturn append(${noun}s, $type{$noun2: $noun}), nil"),
    "rust": ("    let $noun = self.$func(&$noun2)?;", "    match $noun.$noun2 {",
             "        Some($noun) if $noun.len() > $few => Ok($noun),", "        None => Err($type::$type2),", "    }",
             "    for $noun in ${noun2}s.iter().filter(|each| each.$noun > $number) {",
             "        ${noun}s.push($type { $noun, $noun2: $few });", "    // The $adjective $noun comes last.", "",
             '    tracing::debug!(?$noun, "$adjective $noun2");', "    Ok(${noun}s.into_iter().map($func).collect())"),
    "java": ("        if ($noun == null || $noun.$func() > $number) {", "            return List.of();", "        }",
             "        for ($type $noun : ${noun2}s) {", "            ${noun2}s.add(new $type2($noun, $few));",
             '        log.info("$adjective $noun {}", $noun2);', "        // See $type for the $adjective $noun.", "",
             '        throw new $type("$noun without $noun2");',
             "        return $noun.stream().map(this::$func).toList();"),
}  # fmt: skip
_CLOSINGS: Mapping[str, Sequence[str]] = {
    "python": ("", ""), "typescript": ("}", ""), "go": ("}", ""), "rust": ("}", ""), "java": ("    }", ""),
}  # fmt: skip
_RUNS: Mapping[str, tuple[str, str, str, str]] = {
    "python": ("tests/$noun/test_$func.py::test_${verb}_the_${adjective}_$noun2 PASSED  [ $percent%]",
               "tests/$noun/test_$func.py::test_${verb}_the_${adjective}_$noun2 FAILED  [ $percent%]",
               "=== $number passed in $few.${few2}s ===", "=== $few failed, $number passed in $few2.${few3}s ==="),
    "typescript": ("  ✓ $type › ${verb}s the $adjective $noun ($ms ms)",
                   "  ✕ $type › ${verb}s the $adjective $noun ($ms ms)",
                   "Tests:       $number passed, $number total", "Tests:       $few failed, $number passed"),
    "go": ("--- PASS: Test$type/${adjective}_$noun (0.${few}s)", "--- FAIL: Test$type/${adjective}_$noun (0.${few}s)",
           "ok  \texample.org/$service/$noun\t$few.${few2}s", "FAIL\texample.org/$service/$noun\t$few.${few2}s"),
    "rust": ("test $noun::tests::$func ... ok", "test $noun::tests::$func ... FAILED",
             "test result: ok. $number passed; 0 failed; finished in $few.${few2}s",
             "test result: FAILED. $number passed; $few failed; finished in $few2.${few3}s"),
    "java": ("[INFO] Tests run: $few, Failures: 0, Time elapsed: 0.$ms s -- in org.example.$noun.${type}Test",
             "[ERROR] org.example.$noun.${type}Test.$func -- Time elapsed: 0.$ms s <<< FAILURE!",
             "[INFO] BUILD SUCCESS in $few.$few2 s", "[ERROR] BUILD FAILURE in $few.$few2 s"),
}  # fmt: skip
_TRACES: Mapping[str, Sequence[str]] = {
    "python": ('  File "$path", line $line, in $func', "    $noun = self.$func($noun2, $few)"),
    "typescript": ("    at $type.$func ($path:$line:$few)", "    at async $func ($path:$line:$few)"),
    "go": ("example.org/$service/$noun.$func(0xc000$few, 0x$few2)", "\t$path:$line +0x$number"),
    "rust": ("   $few: $noun::$func", "             at $path:$line:$few2"),
    "java": ("\tat org.example.$noun.$type.$func($type.java:$line)", "\tat org.example.$noun2.$type2.lambda($line)"),
}  # fmt: skip
_ERRORS: Mapping[str, Sequence[str]] = {
    "python": ("E       AssertionError: assert $number == $number2", "E       KeyError: '$noun'",
               "E       $type: the $noun of $service is $adjective", "TypeError: $func() got 'NoneType' for '$noun'"),
    "typescript": ("TypeError: Cannot read properties of undefined (reading '$noun')",
                   "    Expected: $number\n    Received: $number2", "Error: $type is not $adjective"),
    "go": ("panic: runtime error: index out of range [$few] with length $few2",
           '    $noun.go:$line: got $number $noun2, want $number2', "$path:$line: undefined: $func"),
    "rust": ("error[E0308]: mismatched types: expected `$type`, found `$type2`",
             "thread '$noun::tests::$func' panicked: assertion `left == right` failed: $number, $number2"),
    "java": ("java.lang.NullPointerException: $noun is null", "expected: <$number> but was: <$number2>"),
}  # fmt: skip
_LOG_LINES = """2026-02-$day $hour:$minute:$minute2 INFO  [$service] $func done in $ms ms
2026-02-$day $hour:$minute:$minute2 DEBUG [$service] ${verb}ing $noun $big
2026-02-$day $hour:$minute:$minute2 WARN  [$service] $adjective $noun, $few retries left
2026-02-$day $hour:$minute:$minute2 INFO  [$service] $adjective $noun $big of $noun2 $number
2026-02-$day $hour:$minute:$minute2 ERROR [$service] $func: $noun2 $number not found
$hour:$minute:$minute2.$ms level=info component=$maker msg="${verb}ed the $noun" n=$number""".splitlines()
_BUILD_LINES = """#$few [$noun $few2/9] RUN $verb --$noun2 $service
#$few CACHED
 => exporting layer sha256:$hash$hash2  $few.${few2}s
   Compiling $service v0.$few.$few2
[$few/$number] Building $path
warning: unused variable: `$noun` in $path:$line
added $number packages, and audited $number2 packages in ${few}s
  dist/$noun-$hash.js   $number.$few kB │ gzip: $few2.$few3 kB
npm warn deprecated $noun-$maker@$few.$few2.0: use $noun2-$maker instead
Step $few/12 : COPY $path /srv/$noun""".splitlines()
_SETTING_LINES = """$noun:
  ${adjective}_$noun: $few
  $noun2: $adjective
  - $service
# The $noun is $adjective in $team.
  enabled: true
  $maker: $noun2-$maker""".splitlines()
_PAGE = """The $noun of a $noun2 is $adjective unless the $maker has been told to $verb it.
When you $verb a $adjective $noun, the $maker will $verb2 each $noun2 in the order in which it arrived.
Most teams begin with $technique and change to $technique2 once the $noun grows, since $reason.
A $adjective $noun2 may outlive its $noun, so that readers have to $verb it before they $verb2 the $noun3.
Note that older releases did not $verb the $noun at all, which left the $noun2 in a $adjective state.
There are two ways to $verb this: with $technique, which is simple, and with $technique2, which is fast.
In our measurements a $maker spent most of its time on the $adjective $noun rather than on the $noun2.
If $fault, the $maker reports the $noun as $adjective and leaves the $noun2 alone.
Readers often ask whether a $noun can be shared by several ${noun2}s; it can, as long as nobody ${verb}s it meanwhile.
The diagram below shows how a $noun moves from the $maker to the $maker2 and back.
Keep the $noun small: every ${verb}ed $noun2 costs a round trip, and the $adjective ones cost two.
This chapter assumes that you know what a $noun is and why $reason.""".splitlines()
_FOREIGN_PAGES = (
    """Der $noun wird erst freigegeben, wenn der $maker alle offenen Einträge verarbeitet hat.
Wer den $noun2 ändert, sollte vorher prüfen, ob noch Leser daran hängen.
In älteren Versionen blieb der $noun nach einem Neustart gesperrt; das wurde inzwischen behoben.
Für kleine Installationen genügt die Voreinstellung, größere brauchen mehr Speicher.
Die Auswertung läuft nachts und schreibt ihr Ergebnis in den $noun2.""".splitlines(),
    """默认情况下，$noun 会在每次重启后重新建立，因此第一次查询比较慢。
如果同时有多个写入者，请先锁定 $noun2，再执行更新操作。
我们建议在生产环境中关闭调试日志，以减少磁盘写入。
当队列已满时，新的任务会被拒绝，并返回明确的错误信息。
升级之前请备份数据，并阅读 $maker 的变更说明。""".splitlines(),
    """既定では $noun は起動時に一度だけ読み込まれます。
$noun2 を変更した後は、必ず $maker を再起動してください。
古い形式のデータは自動的に変換されますが、時間がかかることがあります。
複数のプロセスから同時に書き込む場合は、排他制御が必要です。""".splitlines(),
    """El $noun se guarda en disco cada pocos minutos y se recupera al arrancar.
Antes de cambiar el $noun2 conviene avisar a los demás equipos.
Si el $maker no responde, la petición se repite hasta tres veces.
Los datos antiguos se conservan durante un año y después se borran.""".splitlines(),
    """Le $noun est verrouillé pendant la mise à jour, puis libéré par le $maker.
Il vaut mieux vérifier le $noun2 avant de relancer le traitement complet.
Cette option n'a aucun effet lorsque le cache est désactivé.
Les anciennes versions ignoraient cette erreur sans prévenir personne.""".splitlines(),
)
_RUNNERS: Mapping[str, Sequence[str]] = {
    "python": ("pytest -q tests/$noun", "python -m pytest tests/$noun -k $func -x"),
    "typescript": ("npm test -- $noun", "npx jest src/$noun --runInBand"),
    "go": ("go test ./$noun/...", "go test -race -run Test$type ./..."),
    "rust": ("cargo test $noun", "cargo test --package $service -- --nocapture"),
    "java": ("mvn -q test -Dtest=${type}Test", "./gradlew test --tests '*$type*'"),
}


def source_file(words: Words, lines: int) -> str:
    """Code of so many lines in the language at hand."""
    language = words.language
    made = [words.fill(line) for line in _OPENINGS[language]]
    while len(made) < lines:
        body = words.some(_BODIES[language], words.source.randint(3, 14))
        made += ["", words.fill(words.source.choice(_HEADS[language])), *body, *_CLOSINGS[language]]
    return "\n".join(made[:lines]).strip()


def numbered(code: str, first: int = 1) -> str:
    """The lines as tools show a file, each behind its number."""
    return "\n".join(f"{number:>5}\t{line}" for number, line in enumerate(code.splitlines(), first)).strip()


def search_hits(words: Words, count: int) -> str:
    """Lines that a search found, with file and line number."""
    made: list[str] = []
    while len(made) < count:
        path = words.draw("path")
        body = words.some(_BODIES[words.language], words.source.randint(1, 5))
        made += [f"{path}:{words.draw('line')}:{line.strip()}" for line in body if line]
    return "\n".join(made[:count])


def runner_command(words: Words) -> str:
    return words.fill(words.source.choice(_RUNNERS[words.language]))


def runner_output(words: Words, *, failed: bool, error: str | None = None) -> str:
    """What a test runner prints; where it failed, with traces of one to three failures, `error` in the last."""
    passes, fails, good, bad = _RUNS[words.language]
    made = [words.fill(passes) for _ in range(words.source.randint(5, 40))]
    if not failed:
        return "\n".join([*made, words.fill(good)])
    traces: list[str] = []
    for _ in range(words.source.randint(1, 3)):
        made.insert(words.source.randrange(len(made)), words.fill(fails))
        traces += ["", *trace(words)]
    return "\n".join([*made, *traces, *([error] if error else []), words.fill(bad)])


def trace(words: Words) -> list[str]:
    """A stack trace and its error."""
    frames = [words.fill(line) for _ in range(words.source.randint(2, 8)) for line in _TRACES[words.language]]
    return [*frames, words.fill(words.source.choice(_ERRORS[words.language]))]


def build_log(words: Words, count: int) -> str:
    return _lines(words, _BUILD_LINES, count)


def service_log(words: Words, count: int) -> str:
    return _lines(words, _LOG_LINES, count)


def settings_file(words: Words, count: int) -> str:
    return _lines(words, _SETTING_LINES, count)


def listing(words: Words, count: int) -> str:
    return "\n".join(words.draw("path") for _ in range(count))


def git_output(words: Words, command: str) -> str:
    """What git prints for status, log or diff."""
    if command == "status":
        changed = [f"\tmodified:   {words.draw('path')}" for _ in range(words.source.randint(1, 8))]
        return "\n".join([words.fill("On branch $branch"), "Changes not staged for commit:", *changed])
    if command == "log":
        return _lines(words, ["$hash $verb the $adjective $noun in $service", "$hash $verb $func"], 15)
    code = source_file(words, words.source.randint(15, 80)).splitlines()
    body = [words.source.choice(" +- ") + line for line in code]
    return "\n".join(
        [words.fill("diff --git a/$path b/$path\n--- a/$path\n+++ b/$path\n@@ -$line,9 +$line,14 @@"), *body]
    )


def web_page(words: Words, paragraphs: int) -> str:
    """Prose; one page in six is not in English."""
    is_foreign = words.source.random() < 1 / 6
    templates = words.source.choice(_FOREIGN_PAGES) if is_foreign else _PAGE
    made = [" ".join(words.some(templates, words.source.randint(3, 6))) for _ in range(paragraphs)]
    return "\n\n".join([words.fill("# $technique: $verb the $noun"), *made])


def _lines(words: Words, templates: Sequence[str], count: int) -> str:
    return "\n".join(words.fill(words.source.choice(templates)) for _ in range(count))
