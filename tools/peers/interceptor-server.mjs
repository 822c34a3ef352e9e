// An interceptor server on the TypeScript SDK, in the flat dialect: a peer for tests.
// Usage: node interceptor-server.mjs stdio | http   (http prints its URL on the first line)
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const both = (...events) => [{ events, phase: "request" }, { events, phase: "response" }];
const on = (...events) => [{ events, phase: "request" }];

const descriptors = [
  { name: "js/deny-evil", version: "1.0.0", type: "validation", hooks: on("tools/call") },
  { name: "js/warn", type: "validation", hooks: on("tools/call"), mode: "active", failOpen: false },
  { name: "js/upper", type: "mutation", hooks: both("tools/call"), priorityHint: { request: 10, response: -10 } },
  { name: "js/stamp", type: "mutation", hooks: on("tools/call"), priorityHint: 20, configSchema: { type: "object" } },
  { name: "js/slow", type: "validation", hooks: on("prompts/get") },
  { name: "js/throws", type: "validation", hooks: on("resources/read") },
  { name: "js/throws-open", type: "mutation", hooks: on("tools/call"), failOpen: true, priorityHint: 5 },
  { name: "js/shadow", type: "validation", hooks: on("*"), mode: "audit", failOpen: true },
  { name: "js/sink", type: "sink", hooks: both("*") },
];

const text = (payload) => JSON.stringify(payload);
const mapStrings = (v, f) =>
  typeof v === "string" ? f(v)
    : Array.isArray(v) ? v.map((e) => mapStrings(e, f))
    : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, e]) => [k, mapStrings(e, f)]))
    : v;

const handlers = {
  "js/deny-evil": ({ payload }) => text(payload).includes("evil")
    ? { valid: false, severity: "error", messages: [{ path: "arguments.text", message: "no evil", severity: "error" }], suggestions: [{ path: "arguments.text", value: "good" }] }
    : { valid: true },
  "js/warn": () => ({ valid: false, severity: "warn", messages: [{ message: "hm", severity: "warn" }] }),
  "js/upper": ({ payload }) => {
    const args = mapStrings(payload.arguments ?? payload.content ?? {}, (s) => s.replaceAll("shout", "SHOUT"));
    const key = payload.arguments ? "arguments" : "content";
    return text(args) === text(payload[key] ?? {}) ? { modified: false, payload } : { modified: true, payload: { ...payload, [key]: args }, info: { by: "js" } };
  },
  "js/stamp": ({ payload, config, context }) => ({
    modified: true,
    payload: { ...payload, arguments: { ...payload.arguments, stamp: config?.stamp ?? "none", session: context?.sessionId ?? "none" } },
  }),
  "js/slow": async ({ timeoutMs, phase }) => {
    await sleep(Math.min(timeoutMs ?? 30_000, 30_000));
    const e = new McpError(-32000, "Interceptor execution timeout", { interceptor: "js/slow", timeoutMs, phase });
    throw e;
  },
  "js/throws": () => { throw new Error("it broke"); },
  "js/throws-open": () => { throw new Error("it broke"); },
  "js/shadow": () => ({ valid: false, severity: "error", messages: [{ message: "would deny", severity: "error" }] }),
  "js/sink": ({ payload }) => ({ recorded: true, metrics: { bytes: text(payload).length } }),
};

const List = z.object({ method: z.literal("interceptors/list"), params: z.looseObject({ event: z.string().optional(), cursor: z.string().optional() }).optional() });
const Invoke = z.object({ method: z.literal("interceptor/invoke"), params: z.looseObject({ name: z.string(), event: z.string(), phase: z.string(), payload: z.any() }) });

function newServer() {
  const server = new Server(
    { name: "js-interceptors", version: "1.0.0" },
    { capabilities: { extensions: { "io.modelcontextprotocol/interceptors": { supportedEvents: ["tools/call", "*"] } } } },
  );
  // Two to a page, so that whoever lists has to follow the cursor.
  server.setRequestHandler(List, ({ params }) => {
    const wanted = descriptors.filter((d) => !params?.event || d.hooks.some((h) => h.events.includes(params.event) || h.events.includes("*")));
    const from = Number(params?.cursor ?? 0);
    const page = wanted.slice(from, from + 2);
    return { interceptors: page, ...(from + 2 < wanted.length ? { nextCursor: String(from + 2) } : {}) };
  });
  server.setRequestHandler(Invoke, async ({ params }) => {
    const d = descriptors.find((d) => d.name === params.name);
    if (!d) throw new McpError(-32602, `Interceptor not found: ${params.name}`);
    const started = performance.now();
    const result = await handlers[params.name](params);
    return { interceptor: d.name, type: d.type, phase: params.phase, durationMs: performance.now() - started, ...result };
  });
  return server;
}

if (process.argv[2] === "http") {
  const sessions = new Map();
  const web = createServer(async (req, res) => {
    let transport = sessions.get(req.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await newServer().connect(transport);
    }
    await transport.handleRequest(req, res);
  });
  web.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${web.address().port}/mcp`));
  process.stdin.on("end", () => process.exit(0)).resume(); // it ends with whoever started it
} else {
  await newServer().connect(new StdioServerTransport());
}
