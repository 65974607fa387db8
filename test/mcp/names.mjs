// The conformance tool calls tools and resources by names of its own ("test_simple_text"). This stands between it and the
// server and puts our names in their place; everything else, and every answer, goes through as it is.
// usage: node names.mjs URL   prints the address it listens on
import http from 'node:http';

const target = new URL(process.argv[2]);
const tools = {
  test_simple_text: ['bash', { command: 'echo This is a simple text response for testing.' }],
  test_image_content: ['read_file', { path: '/workspace/static.png' }],
  test_error_handling: ['read_file', { path: '/workspace/does-not-exist' }],
  test_tool_with_progress: ['bash', { command: 'for i in 0 50 100; do echo $i; sleep 0.3; done' }],
};
const resources = {
  'test://static-text': 'file:///workspace/static.txt',
  'test://static-binary': 'file:///workspace/static.png',
  'test://template/123/data': 'file:///workspace/template/123/data',
};

function rename(message, headers) {
  const params = message?.params;
  if (message?.method === 'tools/call' && tools[params?.name]) [params.name, params.arguments] = tools[params.name];
  else if (message?.method === 'resources/read' && resources[params?.uri]) params.uri = resources[params.uri];
  else return false;
  if (headers['mcp-name']) headers['mcp-name'] = params.name ?? params.uri;
  return true;
}

const server = http.createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  let body = Buffer.concat(parts);
  const headers = { ...request.headers };
  try {
    const message = JSON.parse(body);
    if (rename(message, headers)) body = Buffer.from(JSON.stringify(message));
  } catch {
    // not for us to judge
  }
  delete headers['transfer-encoding'];
  if (body.length) headers['content-length'] = body.length;
  for (const name of ['host', 'origin']) headers[name] = headers[name]?.replace(`:${server.address().port}`, `:${target.port}`);
  if (!headers.origin) delete headers.origin;
  const onward = http.request(target, { method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  onward.end(body);
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}${target.pathname}`));
