// The reference clients over Streamable HTTP. usage: node http.mjs URL [KIND...]
import { connect, kinds } from './clients.mjs';
import { error, is, main, ok } from './report.mjs';
import { suite } from './suite.mjs';

const [url, ...wanted] = process.argv.slice(2);

main(async () => {
  for (const kind of wanted.length ? wanted : Object.keys(kinds)) {
    const name = kinds[kind];
    const headers = { 'Cubby-Thread': `client-${kind}` };
    const to = await connect(kind, { url, headers });
    await suite(name, to);
    const session = to.transport.sessionId;
    is(`${name}: a session in the older era only`, session !== undefined, !to.modern);
    if (session) {
      await to.client.ping();
      await to.transport.terminateSession();
      const late = await fetch(url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'Mcp-Session-Id': session },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      });
      is(`${name}: which is gone once it was ended`, late.status, 404);
      ok(`${name}: and a client of it notices`, await error(to.client.ping()));
    }
    await to.close();
  }
});
