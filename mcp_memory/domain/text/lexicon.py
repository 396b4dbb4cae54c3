"""Lists the words and signs used to read texts, as data: English first, then Chinese and Japanese, some German.

Strings are alternatives for a pattern: `(?:{HEDGES})|{HEDGES_UNSPACED}`. Each reading module decides which of them
matter, and where in a sentence: `segments` for its end, `salience` for its worth, `statements` for its claim.
"""

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts written without spaces between words."""

QUESTION_SIGNS = ("?", "？")
COLONS = (":", "：")
"""Ends of a heading, a label, or "Next steps:"."""

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being between both but by can could did do
    does doing done during each for from further had has have having he her here hers him his how i if in into is it its
    just let me might more most much must my no nor not now of off on once only or other our out over own please she
    should so some such than that the their them then there these they this those through to too under until up us very
    was we were what when where which while who whom whose why will with would you your
    aren couldn d didn doesn don isn ll m s shouldn t ve wasn wouldn""".split()
)
"""Words that do not help to find a query's subject; the last line holds fragments of contractions such as I'm,
don't."""

STOP_CHARACTERS = frozenset("的了是在吗呢吧么什哪谁怎我你他她它们这那就都也很を")
"""Stop characters of unspaced scripts: a pair of characters that holds one is no query word."""

HEDGES = (
    "maybe|perhaps|might|possibly|probably|apparently|hopefully|likely|unclear|not sure|seems?|looks like|wonder(?:ed)?"
    "|i (?:think|guess|suppose|believe|suspect|assume)|as far as (?:i|we) \\w+ (?:see|tell)"
)
HEDGES_UNSPACED = "可能|也许|大概|或许|かもしれ|たぶん|おそらく"

DENIALS = (
    "not|never|cannot|hardly|neither|nor|[a-z]+n['’]t"
    "|(?:do|does|did|ca|could|wo|would|is|are|was|were|should|must|need|has|have|had)nt"
)
"""Negations of the verb behind them: "did not help", "wasnt decided"."""
ABSENCES = "no|none|nobody|nothing"
"""Negations of the noun behind them: "no errors", "nobody decided"."""
DENIALS_UNSPACED = "[没沒未尚]"
CONDITIONS = "if|unless|until|whether"
CONDITIONS_UNSPACED = "如果|是否|もし"
EXCEPTIONS = (
    "without|unless|only|except(?:ing|s|ions?)?|exclud(?:es?|ed|ing)|exclusions?|exempt(?:s|ed|ing|ions?)?|barring|besides|minus"
    "|skip(?:s|ped|ping)?|save for|(?:apart|aside) from|other than|omit(?:s|ted|ting)?"
)
LIMITS_UNSPACED = "[不没無无非未别勿莫禁]|除了|只|ない|ません|だけ|しか"
"""Denials and exceptions, in any position."""

LEANING = (
    "it|its|this|that|these|those|there|he|she|they|his|her|their|which|but|so|and|then|also|however|otherwise"
    "|for example|for instance"
)
"""Openings of a sentence that depends on the one before it."""
LEANING_UNSPACED = "这|那|它|他|她|但"

MONTHS = (
    "Jan(?:uar[iy]?|uary)?|Feb(?:ruary?)?|M(?:ar(?:ch)?|ärz)|Apr(?:il)?|Ma[iy]|Jun[ei]?|Jul[iy]?|Aug(?:ust)?"
    "|Sep(?:t(?:ember)?)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?"
)
"""English and German, long and short."""
ABBREVIATIONS = "e\\.g|i\\.e|cf|vs|ca|approx|Dr|Mr|Mrs|Ms|St|Nr|No"
"""Abbreviations with a full stop that ends no sentence."""

NAME_CONNECTORS = frozenset("da de del der di du la le of van von".split())
PERSONAL_TITLES = frozenset("dr mr mrs ms prof".split())
NEVER_NAMES = (
    STOP_WORDS
    | PERSONAL_TITLES
    | frozenset(
        """am apr april aug august dec december false feb february fri friday jan january jul july jun june mar march
    may mon monday none nov november null oct october pm sat saturday sep sept september sun sunday thu thursday today
    tomorrow tonight true tue tuesday wed wednesday yesterday""".split()
    )
)
SHOUTED = frozenset(
    """aka asap debug error eta faq fixme fyi id important info lol nb note ok omg pr ps tbd todo tv url warn warning
    wip yes""".split()
)
OPENERS = frozenset(
    """absolutely actually add afterwards again age ah aha alas alone alright always amazing animals another anybody
    anyone anything anyway apparently art autumn avoid aw awesome aww balance basically basketball beautiful beer
    besides best better big books bread breakfast bug build bump business bye call cats change check cheers
    children class clearly coffee come commit compare config congrats congratulations consider contact cooking
    cool create cute dad dance data database day dear definitely delete deploy despite difficult dinner disable do
    document dogs don't drop education eh either else enable enjoy enough ensure epic error errors especially even
    eventually ever every everybody everyday everyone everything exactly example excellent exercise experience
    fair faith family fantastic fashion father file files finally fine fingers fire first fitness fix follow food
    football fortunately found friends friendship fun function funny game games gardening generally get give glad
    glass go god gold good goodbye got gotcha gotta grab grammar great guess guitar haha half happy hard have
    health hello help hence here here's hey hi history hmm hmmm home hope hopefully house however huge ill imagine
    implement import incredible indeed injury inside install instead interesting iron issue job keep kids know
    language last later latest law least less let life like likewise list literature little log long look looks
    lots love lovely luck luckily lunch made make many math mathematics maybe mean meanwhile meditation men mental
    merge met method milk mine module mom money mother move movie movies music my myself nah name nature need
    neither never new next nice night no nobody none nope normally nothing nowadays null number obviously oh ok
    okay old one only oops open otherwise ouch output outside overall package paint paper parents part patience
    people per perfect perhaps pets plants plenty plus poetry port pottery practice pretty previously price print
    probably progress project put quality query quick quite rain rather read really recently refactor regarding
    release religion remember remove rename replace request research result return returns revert rice right run
    salt same sand say school science see seems self-care send server set several short shortly show side silver
    similarly simply since sleep snow so soccer society somebody someone something sometimes somewhere soon sorry
    sounds spring start stay step still stone stop store stress students stuff such sugar summary summer super
    sure surely sweet table take task tasks tea teachers technology tell tennis test tests thank thanks that's
    then there's therefore things think three thus time together too totally tough traffic travel true truly trust
    try turn two type ugh unfortunately unless unlike update upon use used user users usually value version via
    visual wait want warning water way weather welcome well whatever whenever whereas wherever whether whoa
    whoever win wind wine winter without women wonderful wood words work wow write yay yeah yep yes yet yikes yoga
    yup""".split()
)
"""Words that open sentences, and common nouns without an article in that position: no names there."""

VERBS_BEHIND_NAMES = frozenset(
    """bought built came can can't chose could did didn't does doesn't found gave got had has is isn't kept left made
    may met might must ran said should told took was wasn't went will won't would wrote""".split()
)
"""Words after a name that begins a sentence; words in -s or -ed count too ("Postgres listens")."""

GERMAN = frozenset("auch auf das dem den der die ein eine einen für ich ist mit nicht sich und von wir zu".split())
"""German function words: German capitalises every noun, so capitals mark no names there."""
