// Servers in sandboxes by their host names over TLS, with npm's e2b and Node's own fetch.
// usage: node e2b_hosts.mjs [PACKAGE]; E2B_API_URL and E2B_SANDBOX_URL are https, NODE_EXTRA_CA_CERTS is the authority.
import dns from 'node:dns';
import tls from 'node:tls';
import { eventually, is, main, ok } from '../mcp/report.mjs';

// Names below .localhost lead here without a name server, in this program too.
const lookup = dns.lookup;
dns.lookup = (name, options, done) => {
  if (!name.endsWith('.localhost')) return lookup(name, options, done);
  process.nextTick(() => (options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)));
};
const { Sandbox } = await import(process.argv[2] ?? 'e2b');

const SERVER = `
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b"x" * int(self.path[5:]) if self.path.startswith("/big/") else self.headers["Host"].encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body[::-1])
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
if len(sys.argv) > 2:
    import ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
`;

const made = async (network, more) => {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000, network, ...more });
  await sandbox.files.write('server.py', SERVER);
  return sandbox;
};
const serve = (sandbox, port, pem = '') =>
  sandbox.commands.run(`exec python3 server.py ${port} ${pem}`, { background: true });
async function answers(url, options) {
  let response;
  await eventually(20, async () => {
    response = await fetch(url, options);
    if (response.status === 502) await response.arrayBuffer();
    return response.status !== 502;
  });
  return response;
}

async function hosts() {
  const sandbox = await made();
  await serve(sandbox, 8000);
  const host = sandbox.getHost(8000);
  ok('a host below the domain', /^8000-[0-9a-f]{16}\.sbx\.localhost:\d+$/.test(host), host);
  const response = await answers(`https://${host}/`);
  is('a server by its host name', [response.status, await response.text()], [200, host]);
  is('much of it', (await (await fetch(`https://${host}/big/3000000`)).arrayBuffer()).byteLength, 3000000);
  const closed = await fetch(`https://${sandbox.getHost(3000)}/`);
  is('a port that nobody listens on', [closed.status, (await closed.json()).port], [502, 3000]);
  const [name, port] = host.split(':');
  const protocol = await new Promise((done, fail) => {
    const socket = tls.connect({ port, host: '127.0.0.1', servername: name, ALPNProtocols: ['h2', 'http/1.1'] }, () => {
      done(socket.alpnProtocol);
      socket.destroy();
    });
    socket.on('error', fail);
  });
  is('HTTP/1.1 is agreed on', protocol, 'http/1.1');
  const health = await fetch(`https://${sandbox.getHost(49983)}/health`);
  is("envd's own port by its host name", health.status, 204);
  await sandbox.kill();
  const gone = await fetch(`https://${host}/`);
  is('after its end', [gone.status, (await gone.json()).message], [502, 'The sandbox was not found']);
}

async function traffic() {
  const sandbox = await made({ allowPublicTraffic: false, maskRequestHost: 'custom.example.com:${PORT}' });
  await serve(sandbox, 8080);
  const url = `https://${sandbox.getHost(8080)}/`;
  const refused = await fetch(url);
  is('private traffic without its token', [refused.status, (await refused.json()).message], [
    403,
    "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing",
  ]);
  const headers = { 'e2b-traffic-access-token': sandbox.trafficAccessToken };
  is('with it, under a masked host', await (await answers(url, { headers })).text(), 'custom.example.com:8080');
  is('commands need no such token', (await sandbox.commands.run('echo 1')).stdout, '1\n');
  await sandbox.kill();
}

async function inside() {
  const sandbox = await made({ httpsPorts: [8443, 8444] });
  is('ports that speak TLS are reported', (await sandbox.getInfo()).network?.httpsPorts, [8443, 8444]);
  await sandbox.commands.run(
    'openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=x -keyout p -out c && cat c >> p',
  );
  await serve(sandbox, 8443, 'p');
  await serve(sandbox, 8444); // it does not speak TLS, whatever was said
  const url = `https://${sandbox.getHost(8443)}`;
  const response = await answers(`${url}/`);
  is('a server that speaks TLS in its sandbox', response.status, 200);
  await response.arrayBuffer();
  is('much of it', (await (await fetch(`${url}/big/5000000`)).arrayBuffer()).byteLength, 5000000);
  const body = 'ab'.repeat(500_000);
  const posted = await fetch(url, { method: 'POST', body });
  is('much to it', [posted.status, await posted.text()], [201, 'ba'.repeat(500_000)]);
  const part = () => fetch(`${url}/big/100000`).then((r) => r.arrayBuffer());
  const many = await Promise.all(Array.from({ length: 20 }, part));
  is('many at once', [...new Set(many.map((part) => part.byteLength))], [100000]);
  const liar = await fetch(`https://${sandbox.getHost(8444)}/`);
  is('a server that does not speak it is a bad gateway', liar.status, 502);
  await liar.arrayBuffer();
  await sandbox.kill();
}

async function waking() {
  const sandbox = await made(undefined, { lifecycle: { onTimeout: 'pause', autoResume: true } });
  await serve(sandbox, 8000);
  const url = `https://${sandbox.getHost(8000)}/`;
  await (await answers(url)).arrayBuffer();
  await sandbox.pause();
  is('a paused sandbox that may be woken', (await sandbox.getInfo()).state, 'paused');
  const response = await fetch(url);
  is('is woken by traffic over TLS', [response.status, (await sandbox.getInfo()).state], [200, 'running']);
  await response.arrayBuffer();
  await sandbox.kill();
}

await main(async () => {
  await hosts();
  await traffic();
  if (process.argv[2] !== 'e2b-2.45') await inside(); // older clients do not send httpsPorts
  await waking();
});
