// Runs command lines of the inspector's to their ends, one by one, as its own launcher does: a start takes longer than
// all that the tests ask. Its argument is the inspector's module; each line that it reads is a list of words as JSON.
import { createInterface } from "node:readline";

const { runCli } = await import(process.argv[2]);
for await (const line of createInterface({ input: process.stdin })) {
  let code = 0;
  try {
    await runCli(["node", "mcp-inspector", ...JSON.parse(line)]);
  } catch (error) {
    code = error.exitCode ?? 1;
    console.error(error);
  }
  console.log(`\nended with ${code}`);
}
process.exit(0);
