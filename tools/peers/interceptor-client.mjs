// An MCP client on the TypeScript SDK that makes the requests it is given: a peer for tests.
// Usage: node interceptor-client.mjs '{"url": URL}' | '{"command": [..], "env": {..}}' '[{"method": .., "params": ..}, ..]'
// Prints {"capabilities": .., "answers": [{"result": ..} | {"error": {code, message, data}}]}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { z } from "zod";

const to = JSON.parse(process.argv[2]);
const transport = to.url
  ? new StreamableHTTPClientTransport(new URL(to.url))
  : new StdioClientTransport({ command: to.command[0], args: to.command.slice(1), env: { ...process.env, ...to.env } });
const client = new Client({ name: "js-client", version: "1.0.0" });
await client.connect(transport);

const answers = [];
for (const request of JSON.parse(process.argv[3])) {
  try {
    answers.push({ result: await client.request(request, z.looseObject({})) });
  } catch (e) {
    answers.push({ error: { code: e.code, message: e.message, data: e.data } });
  }
}
console.log(JSON.stringify({ capabilities: client.getServerCapabilities(), answers }));
await client.close();
