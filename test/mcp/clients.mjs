// The three reference clients behind one shape: `connect(kind, transport)`, kind 1: SDK 1.x, 2: client 2.x as it comes (older
// era), 3: client 2.x that negotiates (newer era). transport: {url} or {command, args}.
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema, EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';

// A schema that takes whatever comes.
const anything = { '~standard': { version: 1, vendor: 'cubby-tests', validate: (value) => ({ value }) } };

export const kinds = { 1: 'SDK 1.x', 2: 'client 2.x, older era', 3: 'client 2.x, newer era' };

export async function connect(kind, { url, headers, command, args, env }) {
  const info = { name: 'cubby-tests', version: '1' };
  const first = kind == 1;
  const client = first ? new Client1(info) : new Client2(info, kind == 3 ? { versionNegotiation: { mode: 'auto' } } : {});
  const requestInit = { headers };
  const transport = url
    ? new (first ? Http1 : Http2)(new URL(url), { requestInit })
    : new (first ? Stdio1 : Stdio2)({ command, args, env, stderr: 'inherit' });
  await client.connect(transport);
  return {
    client,
    transport,
    modern: kind == 3,
    missing: first ? -32002 : -32602, // no such resource: client 2.x shows the newer era's number for both
    call: (name, args = {}, options = {}, meta) => {
      const params = { name, arguments: args, ...(meta && { _meta: meta }) };
      return first ? client.callTool(params, CallToolResultSchema, options) : client.callTool(params, options);
    },
    request: (method, params = {}) =>
      first ? client.request({ method, params }, EmptyResultSchema) : client.request({ method, params }, anything),
    close: () => client.close(),
  };
}
