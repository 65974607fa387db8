// What the daemon is sent and answers, and its operations. Made by clients/generate from `cubbyd --openapi`.

export interface Health {
  /** ok */
  status: string;
  /** that of the state directory */
  disk: string;
  /** failing: rows wait in memory */
  audit: string;
}

export interface Info {
  /** of cubby */
  version: string;
  /** used when a request names none */
  default_backend: string;
  /** when the daemon came up */
  started_at: string;
  /** what each can and cannot do here */
  backends: Record<string, any>[];
  /** the key of secrets, and what clients of other products find here */
  checks: Check[];
  /** what this daemon can do beyond its first version, for clients that meet several: e.g. tickets */
  features: string[];
}

export interface Check {
  /** of what, or whose clients */
  name: string;
  /** whether all of them works */
  ok: boolean;
  /** what works */
  detail: string;
  /** how to get the rest */
  fix: string | null;
}

export interface Whoami {
  /** what you may do */
  scope: string;
  /** whose boxes you see; null: all */
  user: string | null;
  /** id of your token; null: you need none here */
  token: string | null;
  /** what the token is for */
  label: string | null;
  /** of the token or login; null: never */
  expires_at: string | null;
  /** no token was needed */
  open: boolean;
  /** you came by a ticket for a login */
  login: boolean;
}

export interface TicketForRequest {
  /** what it opens: pty a terminal; files a download (files, archive, output of a process, a recording); port the bytes of a server; login the page, for its sender */
  for: string;
  /** whose; not for a login */
  box?: string;
}

export interface TicketMade {
  /** for one request: ?ticket=, or Sec-WebSocket-Protocol: cubby.v1, ticket.TICKET */
  ticket: string;
  /** half a minute from now */
  expires_at: string;
}

export interface LoginRequest {
  /** made for a login */
  ticket: string;
}

export interface Login {
  /** for Authorization: Bearer; it ends with what it was made with */
  token: string;
  /** of the token */
  expires_at: string;
  /** what it may do */
  scope: string;
  /** whose boxes it sees; null: all */
  user: string | null;
}

export interface AuditEvents {
  /** in the order they were written */
  events: AuditEvent[];
  /** after of the next page */
  next: number;
  /** there are more already */
  truncated: boolean;
}

export interface AuditEvent {
  /** 1, 2, 3 ... */
  id: number;
  /** when it began */
  at: string;
  /** operationId of the request, or an event: box_adopted, box_died, box_evicted, daemon_started ... */
  verb: string;
  /** its id */
  box: string | null;
  /** whose box; without a box whose request */
  user: string | null;
  /** user of the token; null when it is bound to none */
  actor: string | null;
  /** of the token; null when no request caused it, or its sender is unknown */
  scope: string | null;
  /** which token: first 12 digits of its SHA-256 */
  token: string | null;
  /** uid:N of a local client, address of others */
  peer: string | null;
  /** X-Request-Id of the answer */
  request_id: string | null;
  /** HTTP status; null when it was not a request, or still runs */
  status: number | null;
  /** ok, the error's code, or running: a lasting request has a row when it begins, and one when it ends */
  outcome: string;
  /** of a command that was waited for */
  exit_code: number | null;
  /** that ended it */
  signal: string | null;
  /** killed at timeout_ms */
  timed_out: boolean | null;
  /** a process of the box was killed for lack of memory then */
  oom_killed: boolean | null;
  /** similar GETs within a fifth of a second share a row: how many; sizes and time are sums */
  count: number;
  /** of the request */
  bytes_in: number;
  /** of the answer */
  bytes_out: number;
  /** from its head to the end of its answer */
  duration_ms: number;
  /** command or path, cut at 1024 bytes; values of environment variables appear as [NAME] */
  detail: string | null;
  /** of detail */
  encoding: string;
  /** SHA-256 over the hash of the row before and this row; null for a user's token */
  hash: string | null;
}

export interface AuditVerified {
  /** every row follows from the one before, and the file is whole */
  intact: boolean;
  /** rows there are */
  rows: number;
  /** id of the oldest */
  first: number;
  /** id of the newest */
  last: number;
  /** of the newest: noted elsewhere, it vouches for all before it */
  hash: string;
  /** the first row that does not follow */
  broken_at: number | null;
  /** of the file */
  damage: string | null;
}

export interface TokenRequest {
  /** whose boxes it sees; default 'default'; none for scope admin; scope read without one sees all */
  user?: string;
  /** what it may do; default user, or runner where there is a runner's name; worker: boxes of backend fleet */
  scope?: string;
  /** scope runner or worker: name of the machine that joins with it */
  runner?: string;
  /** what it is for */
  label?: string;
  /** after so long it is not known any more; default never */
  expires_in_ms?: number;
}

export interface NewToken {
  /** 12 hex digits, also in the audit log */
  id: string;
  /** whose boxes it sees; null: all */
  user: string | null;
  /** what it may do */
  scope: string;
  /** name of the machine that joins with it */
  runner: string | null;
  /** what it is for */
  label: string | null;
  /** null for a configured one */
  created_at: string | null;
  /** null: never */
  expires_at: string | null;
  /** within a minute; null: never, or configured and not since the start */
  last_used_at: string | null;
  /** since then it is not accepted */
  revoked_at: string | null;
  /** the secret: only here, only now */
  token: string;
}

export interface Tokens {
  /** revoked ones for 30 days */
  tokens: Token[];
}

export interface Token {
  /** 12 hex digits, also in the audit log */
  id: string;
  /** whose boxes it sees; null: all */
  user: string | null;
  /** what it may do */
  scope: string;
  /** name of the machine that joins with it */
  runner: string | null;
  /** what it is for */
  label: string | null;
  /** null for a configured one */
  created_at: string | null;
  /** null: never */
  expires_at: string | null;
  /** within a minute; null: never, or configured and not since the start */
  last_used_at: string | null;
  /** since then it is not accepted */
  revoked_at: string | null;
  /** it is in the daemon's configuration */
  configured: boolean;
}

export interface SecretRequest {
  /** whose it is; default: the token's user; of an administrator: of all users */
  user?: string;
  /** the secret, visible ASCII of 8 bytes or more; never given out again. Without it a secret that exists keeps its value */
  value?: string;
  /** administrators: where the value is, instead of `value` */
  from?: SecretFrom;
  /** the hosts that get it: exact names */
  hosts?: string[];
  /** where it may stand: authorization, header:NAME, query:NAME, path, form:NAME, json:/POINTER (bodies of at most 64 KiB with a Content-Length); default: authorization and the usual headers for keys */
  slots?: string[];
  /** the only methods that get it; default: all */
  methods?: string[];
  /** the only paths that get it, * within a segment and ** over segments; default: all */
  paths?: string[];
  /** the only ports; default 443 */
  ports?: string[];
  /** the variable that boxes find its placeholder in; default: its name in capitals */
  env?: string;
  /** beginning of the value that is public, so that placeholders have it too; default: a known one */
  prefix?: string;
  /** strict: an answer with a Content-Encoding, in which the value cannot be found, is refused */
  scrub?: string;
  /** hosts may have a star: *.example.com */
  wide?: boolean;
}

export interface SecretFrom {
  /** a file of the daemon's machine, read at each use */
  file?: string;
  /** a variable of the daemon */
  env?: string;
  /** a command that secret_commands of the configuration lists; what it prints is the value */
  command?: string[];
  /** how long that counts before the command runs again; default: it runs at each use */
  ttl_s?: number;
}

export interface Secret {
  /** what boxes bind it by */
  name: string;
  /** whose boxes may use it; null: all users' */
  user: string | null;
  /** the hosts that get it */
  hosts: string[];
  /** where it may stand; empty: the default */
  slots: string[];
  /** the only methods; empty: all */
  methods: string[];
  /** the only paths; empty: all */
  paths: string[];
  /** the only ports; empty: 443 */
  ports: string[];
  /** the variable of boxes that name none */
  env: string | null;
  /** stored, file, env or command */
  source: string;
  /** one more with each value */
  version: number;
  /** tells values apart, and nothing about them; empty: it is not stored */
  digest: string;
  /** when it was made */
  created_at: string;
  /** when it was last set */
  updated_at: string;
  /** when a box last used it; null: never */
  last_used_at: string | null;
}

export interface Secrets {
  /** without their values */
  secrets: Secret[];
}

export interface NetworkAuthority {
  /** PEM */
  certificate: string;
}

export interface Users {
  /** by name */
  users: User[];
}

export interface User {
  /** owner of boxes */
  user: string;
  /** how many */
  boxes: number;
  /** of these, that have processes */
  running: number;
}

export interface AgentNames {
  /** by name */
  agents: AgentName[];
}

export interface AgentName {
  /** as POST /v1/boxes takes it */
  agent: string;
  /** how many */
  boxes: number;
  /** of these, that have processes */
  running: number;
}

export interface BoxRequest {
  /** owner: letters, digits and _.@-; default: the token's user, else 'default' */
  user?: string;
  /** the same user and thread get the same box again; without one each call makes a new box */
  thread?: string;
  /** its public skills are at /skills; one box a user and agent, instead of a thread */
  agent?: string;
  /** a machine of the user's that joined: the box is on it; without a thread, it is the machine's own box */
  machine?: string;
  /** how the box is made, e.g. jail */
  backend?: string;
  /** what the box's root looks like; default 'host'. Backend docker: an image; default: the configuration's */
  template?: string;
  /** shell for commands; default /bin/bash where there is one, else /bin/sh */
  shell?: string;
  /** environment of every command */
  env?: Record<string, any>;
  /** directories of the host to see in the box */
  mounts?: Mount[];
  /** what the box may use at most */
  limits?: LimitsRequest;
  /** backend docker: further settings of its container */
  container?: ContainerRequest;
  /** none: loopback only (default); open: an own network with a way out; an object: the hosts that it may reach, {"allow": ["pypi.org"], "deny": []} */
  network?: Record<string, any> | string;
  /** secrets that it may use and never has, each NAME or NAME=VARIABLE: commands find a placeholder there */
  secrets?: string[];
  /** processes end after so long without a call, files stay; 0: never. While background processes run, the configuration's busy_timeout_ms counts instead */
  idle_timeout_ms?: number;
  /** the box is deleted, with its files, after idle_timeout_ms without a call */
  temporary?: boolean;
  /** names of your own to find boxes by */
  labels?: Record<string, any>;
}

export interface Mount {
  /** a directory of the host that the configuration allows */
  source: string;
  /** absolute path in the box */
  target: string;
  /** the box may not write to it */
  read_only?: boolean;
}

export interface LimitsRequest {
  /** memory in MiB */
  memory_mb?: number;
  /** processors, fractions allowed */
  cpus?: number;
  /** processes and threads */
  pids?: number;
  /** files in MiB */
  disk_mb?: number;
  /** descriptors of one process; never more than the daemon's own hard limit */
  open_files?: number;
  /** largest output_limit_bytes of its commands */
  output_bytes?: number;
}

export interface ContainerRequest {
  /** whom commands run as in the container: NAME or UID, and :GROUP or :GID; default: the image's */
  user?: string;
  /** one of the engine's that the configuration allows, e.g. runsc; default: the configuration's, else the engine's */
  runtime?: string;
  /** of the image, e.g. linux/arm64; default: the engine's own */
  platform?: string;
  /** whether the image comes from its registry; default: the configuration's */
  pull?: string;
  /** the image's files cannot be changed; the workspace, /tmp and mounts can */
  read_only?: boolean;
  /** image: the image's own entry point runs, and the runner next to it; default runner */
  init?: string;
}

export interface Box {
  /** 16 hex digits */
  id: string;
  /** owner */
  user: string;
  /** null when it has none */
  thread: string | null;
  /** whose skills are at /skills; null without an agent */
  agent: string | null;
  /** the joined machine that it is on; null elsewhere */
  machine: string | null;
  /** how it is made */
  backend: string;
  /** ready: in use; warm: released, or ended until it is used again; paused: its processes are frozen; offline: its machine is not connected */
  state: string;
  /** it has processes; else they are started when it is used */
  running: boolean;
  /** why it stopped unexpectedly, null when it did not. Its files are kept; the next acquire or start starts it again, and of a box without a thread any use */
  died: string | null;
  /** why its processes were ended, e.g. idle, and the commands that ran in the background then; null while it has processes, and when this daemon did not end them */
  ended: string | null;
  /** why the processes before the present ones stopped unexpectedly; null when they did not. The first answer after such a restart has it as the header Cubby-Restarted */
  restarted: string | null;
  /** directory where commands start */
  workspace: string;
  /** what its root is, or its image */
  template: string;
  /** of backend docker; null for other backends */
  container: Container | null;
  /** its network: none, open, or the hosts that it may reach */
  network: Record<string, any> | string;
  /** 0: never */
  idle_timeout_ms: number;
  /** it is deleted after its idle timeout */
  temporary: boolean;
  /** when it was made */
  created_at: string;
  /** last call */
  last_used_at: string;
  /** 0: not limited */
  limits: Limits;
  /** null where it cannot be measured */
  usage: Usage;
  /** of its machine; null where it is on none */
  remote: Remote | null;
  /** as given */
  labels: Record<string, any>;
}

export interface Container {
  /** whom commands run as; null: the image's */
  user: string | null;
  /** null: the engine's default */
  runtime: string | null;
  /** null: the engine's */
  platform: string | null;
  /** when its image is pulled */
  pull: string;
  /** the image's files cannot be changed */
  read_only: boolean;
  /** which program is the container's first */
  init: string;
}

export interface Limits {
  /** memory in MiB */
  memory_mb: number;
  /** processors */
  cpus: number;
  /** processes and threads */
  pids: number;
  /** files in MiB */
  disk_mb: number;
  /** descriptors of one process */
  open_files: number;
  /** largest output_limit_bytes of its commands */
  output_bytes: number;
}

export interface Usage {
  /** memory in use */
  memory_bytes: number | null;
  /** processor time so far */
  cpu_ms: number | null;
  /** processes and threads now */
  pids: number | null;
  /** bytes in the box's own files */
  disk_bytes: number | null;
  /** received by its own network interfaces; null in lists */
  net_rx_bytes: number | null;
  /** sent by them; null in lists */
  net_tx_bytes: number | null;
  /** read from disks; null in lists */
  read_bytes: number | null;
  /** written to disks; null in lists */
  write_bytes: number | null;
  /** of a box with a network policy that runs; only where one box is asked for, else null */
  network: UsageNetwork | null;
}

export interface UsageNetwork {
  /** that were made since the box started */
  connections: number;
  /** that are open */
  active: number;
  /** that were refused */
  denied: number;
  /** to the box */
  bytes_in: number;
  /** from the box */
  bytes_out: number;
}

export interface Remote {
  /** the machine is connected now */
  online: boolean;
  /** online or offline since then; null: it was not seen since the daemon started */
  since: string | null;
  /** there and back; null: not known */
  latency_ms: number | null;
  /** of its runner */
  version: string | null;
  /** jail, or none */
  isolation: string | null;
  /** system and processor */
  platform: string | null;
  /** where it connects from */
  address: string | null;
}

export interface Boxes {
  /** those that you may see, by their ids */
  boxes: Box[];
  /** for after, where limit left some out; null: these are all */
  next: string | null;
}

export interface Ended {
  /** boxes destroyed */
  ended: number;
}

export interface UsageOverTime {
  /** the oldest first, the last one of now; the longer a box runs, the further apart they are */
  samples: UsageAt[];
}

export interface UsageAt {
  /** when it was measured */
  at: string;
  /** memory in use */
  memory_bytes: number | null;
  /** processor time so far */
  cpu_ms: number | null;
  /** processes and threads */
  pids: number | null;
  /** bytes in the box's own files */
  disk_bytes: number | null;
  /** received by its own network interfaces; null in lists */
  net_rx_bytes: number | null;
  /** sent by them; null in lists */
  net_tx_bytes: number | null;
  /** read from disks; null in lists */
  read_bytes: number | null;
  /** written to disks; null in lists */
  write_bytes: number | null;
}

export interface BindingRequest {
  /** the variable in this box; default: the secret's */
  env?: string;
}

export interface Binding {
  /** of the secret */
  name: string;
  /** the variable of commands that start from now on */
  env: string;
  /** what it holds: no secret, and of this box alone */
  placeholder: string;
}

export interface Bindings {
  /** that this box may use */
  secrets: Binding[];
}

export interface Network {
  /** as of now */
  network: Record<string, any> | string;
  /** how often it was changed; for If-Match */
  generation: number;
  /** what is allowed and doubtful */
  warnings: string[];
  /** it is enforced now; the counts are since the box started */
  live: boolean;
  /** connections that are open */
  active: number;
  /** that were made */
  connections: number;
  /** that were refused */
  denied: number;
  /** names that were not resolved */
  names_denied: number;
  /** connections that a change or a limit ended; of a change: by it */
  cut: number;
  /** to the box */
  bytes_in: number;
  /** from the box */
  bytes_out: number;
}

export interface NetworkTest {
  /** whether a connection would be made */
  allowed: boolean;
  /** it would be held for an answer */
  ask: boolean;
  /** its TLS would be opened */
  inspect: boolean;
  /** the entry that decides, default, never or private */
  why: string;
}

export interface NetworkLearned {
  /** the smallest policy that allows what happened */
  network: Record<string, any> | unknown[];
}

export interface SnapshotRequest {
  /** letters, digits and _.-; default: made from the time */
  name?: string;
}

export interface Snapshot {
  /** of the snapshot */
  name: string;
  /** when */
  created_at: string;
  /** layer: the files became a layer below the box, nothing was copied; btrfs: a snapshot of the file system; reflink, copy: a copy, without or with its bytes; commit: the engine keeps its container as an image */
  method: string;
  /** how long the processes of the box were frozen */
  pause_ms: number;
  /** bytes that had to be copied */
  copied_bytes: number;
  /** the box's idle runner was ended for it; the next use starts another */
  stopped: boolean;
  /** kept layers that it consists of */
  layers: number;
}

export interface Snapshots {
  /** the oldest first */
  snapshots: Snapshot[];
}

export interface RollbackRequest {
  /** its name */
  snapshot: string;
}

export interface Rollback {
  /** whose files the box has now */
  snapshot: string;
  /** processes that ran in the box */
  processes_ended: number;
}

export interface ForkRequest {
  /** whose files; default: the box's as they are now */
  snapshot?: string;
  /** owner of the new box; default: the box's */
  user?: string;
  /** of the new box; default none */
  thread?: string;
}

export interface Export {
  /** false: nothing has changed since its image, and nothing was done */
  changed: boolean;
  /** its name at the engine; null when nothing was done */
  image: string | null;
  /** of its files */
  bytes: number;
  /** how long it took */
  duration_ms: number;
  /** processes that ran in the box */
  processes_ended: number;
}

export interface Diff {
  /** directory by directory */
  changes: Change[];
  /** there were more, or some could not be reported */
  truncated: boolean;
}

export interface Change {
  /** absolute */
  path: string;
  /** of path */
  encoding: string;
  /** of a removed directory only its own name is reported */
  change: string;
  /** what it is, or was */
  type: string;
  /** bytes; 0 for a directory */
  size: number;
}

export interface ExecRequest {
  /** given to the box's shell; or argv */
  command?: string;
  /** program and arguments, no shell */
  argv?: string[];
  /** default: the workspace */
  cwd?: string;
  /** added to the box's environment */
  env?: Record<string, any>;
  /** standard input as text */
  stdin?: string;
  /** standard input as base64, instead of stdin */
  stdin_base64?: string;
  /** who runs it inside; default agent */
  user?: string;
  /** event streams only: standard input stays open and is fed by processes/{pid}/stdin */
  stdin_open?: boolean;
  /** after that the command is killed */
  timeout_ms?: number;
  /** kept of each stream, at most limits.output_bytes; more loses its middle */
  output_limit_bytes?: number;
}

export interface ExecResult {
  /** what was kept */
  stdout: string;
  /** what was kept */
  stderr: string;
  /** of stdout and stderr */
  encoding: string;
  /** null when a signal ended it */
  exit_code: number | null;
  /** e.g. SIGKILL; null when it exited */
  signal: string | null;
  /** killed at timeout_ms */
  timed_out: boolean;
  /** a process of the box was killed for lack of memory while it ran */
  oom_killed: boolean;
  /** the box's limit of memory; null without one */
  memory_limit_bytes: number | null;
  /** a process of it hangs in the kernel, could not be killed and goes with the box */
  stuck: boolean;
  /** bytes produced, kept or not */
  stdout_bytes: number;
  /** bytes produced, kept or not */
  stderr_bytes: number;
  /** the middle was dropped */
  stdout_truncated: boolean;
  /** the middle was dropped */
  stderr_truncated: boolean;
  /** from start to end */
  duration_ms: number;
  /** what the box's network policy refused to it */
  network_denied: NetworkDenied[];
}

export interface NetworkDenied {
  /** host and port */
  to: string;
  /** deny:ENTRY, default (no entry allows it), never, private */
  why: string;
  /** how often */
  count: number;
}

export interface ProcessRequest {
  /** given to the box's shell; or argv */
  command?: string;
  /** program and arguments, no shell */
  argv?: string[];
  /** default: the workspace */
  cwd?: string;
  /** added to the box's environment */
  env?: Record<string, any>;
  /** standard input as text */
  stdin?: string;
  /** standard input as base64, instead of stdin */
  stdin_base64?: string;
  /** who runs it inside; default agent */
  user?: string;
  /** after that the command is killed; default 0: never */
  timeout_ms?: number;
  /** accepted for the same body as exec; the kept output of a process is a ring of 1 MiB a stream */
  output_limit_bytes?: number;
  /** a name for it, which lists repeat */
  tag?: string;
}

export interface ProcessStarted {
  /** as seen inside the box */
  pid: number;
  /** when */
  started_at: string;
}

export interface Processes {
  /** running and lately ended */
  processes: Process[];
}

export interface Process {
  /** as seen inside the box */
  pid: number;
  /** as given; arguments joined by blanks */
  command: string;
  /** what it does */
  state: string;
  /** when */
  started_at: string;
  /** the name that it was given */
  tag?: string;
  /** the directory that it was started in; of one process alone */
  cwd?: string;
  /** as given, where no shell was asked for; of one process alone */
  argv?: string[];
  /** null when a signal ended it */
  exit_code: number | null;
  /** e.g. SIGKILL; null when it exited */
  signal: string | null;
  /** killed at timeout_ms */
  timed_out: boolean;
  /** a process of the box was killed for lack of memory while it ran */
  oom_killed: boolean;
  /** the box's limit of memory; null without one */
  memory_limit_bytes: number | null;
  /** a process of it hangs in the kernel, could not be killed and goes with the box */
  stuck: boolean;
  /** bytes produced, kept or not */
  stdout_bytes: number;
  /** bytes produced, kept or not */
  stderr_bytes: number;
}

export interface SignalRequest {
  /** SIGTERM, TERM or a number; its process group gets it */
  signal: string | number;
}

export interface SessionRequest {
  /** letters, digits and _.:@-; default: a random one */
  name?: string;
  /** where a new shell begins; default: the workspace */
  cwd?: string;
  /** added to the environment of a new shell */
  env?: Record<string, any>;
  /** who a new shell runs as inside; default agent */
  user?: string;
  /** of a new session; default: bash where the box has it, else its shell */
  shell?: string;
  /** of its terminal */
  cols?: number;
  /** of its terminal */
  rows?: number;
  /** for commands that do not say; also changes that of a session that is there. Default 0: none */
  quiet_ms?: number;
}

export interface Session {
  /** unique in its box */
  name: string;
  /** of the shell, as a background process of the box; null: it has none, commands are processes */
  pid: number | null;
  /** of the command that runs, or ran last */
  state: string;
  /** that one, cut */
  command: string;
  /** 128 + signal as shells have it; null: it runs, or was killed */
  exit_code: number | null;
  /** where the shell was at the end of its last command */
  cwd: string;
  /** when it was made */
  created_at: string;
  /** when its last command began or ended */
  used_at: string;
  /** how many there have been */
  commands: number;
  /** calls that wait for their turn */
  waiting: number;
  /** for commands that do not say; 0: none */
  quiet_ms: number;
  /** where the output of that command begins, for processes/{pid}/output */
  offset: number;
  /** and where it ends so far */
  next_offset: number;
}

export interface Sessions {
  /** the oldest first */
  sessions: Session[];
}

export interface SessionExecRequest {
  /** given to the session's shell */
  command: string;
  /** the shell goes there first, and stays there; default: where it is */
  cwd?: string;
  /** do not wait for it; BUSY when another one runs */
  background?: boolean;
  /** answer after so long and leave it running (state running); default 0: when it ends */
  wait_ms?: number;
  /** answer when it printed nothing for so long, and leave it running (state quiet); LIMIT when its turn has not come by then; 0: never; default: the session's */
  quiet_ms?: number;
  /** from the call on; then it is killed with all it started, and the session stays (LIMIT when its turn has not come by then); 0: never, which is the default in the background */
  timeout_ms?: number;
  /** kept of the output, at most limits.output_bytes; more loses its middle */
  output_limit_bytes?: number;
}

export interface SessionExecResult {
  /** what it printed, both streams as they came */
  output: string;
  /** of output */
  encoding: string;
  /** bytes printed, kept or not */
  output_bytes: number;
  /** the middle was dropped */
  output_truncated: boolean;
  /** running and quiet: it runs on */
  state: string;
  /** 128 + signal as shells have it; null: it runs, or was killed */
  exit_code: number | null;
  /** killed at timeout_ms */
  timed_out: boolean;
  /** the shell ended with it, and the session is gone */
  ended: boolean;
  /** a process of the box was killed for lack of memory while it ran */
  oom_killed: boolean;
  /** where the shell is now */
  cwd: string;
  /** as in the session */
  offset: number;
  /** as in the session */
  next_offset: number;
  /** so far */
  duration_ms: number;
}

export interface SessionResult {
  /** running and quiet: it runs on */
  state: string;
  /** 128 + signal as shells have it; null: it runs, or was killed */
  exit_code: number | null;
  /** killed at timeout_ms */
  timed_out: boolean;
  /** the shell ended with it, and the session is gone */
  ended: boolean;
  /** a process of the box was killed for lack of memory while it ran */
  oom_killed: boolean;
  /** where the shell is now */
  cwd: string;
  /** as in the session */
  offset: number;
  /** as in the session */
  next_offset: number;
  /** so far */
  duration_ms: number;
}

export interface TicketRequest {
  /** of the server in the box */
  port: number;
}

export interface Ticket {
  /** opens this box's previews, for the next minute */
  ticket: string;
  /** for a browser: it trades the ticket for a cookie, and shows the server */
  url: string;
  /** the same without the ticket */
  origin: string;
  /** of the ticket; the cookie holds for 12 hours, or as long as the box */
  expires_at: string;
}

export interface File {
  /** last part of the path */
  name: string;
  /** whole path */
  path: string;
  /** of name, path and link_target */
  encoding: string;
  /** what it is */
  type: string;
  /** which kind, where type is other and its runner knows */
  special: string | null;
  /** bytes */
  size: number;
  /** octal permissions */
  mode: string;
  /** last change */
  mtime: string;
  /** owner inside the box */
  uid: number;
  /** group inside the box */
  gid: number;
  /** of a symlink */
  link_target: string | null;
}

export interface Files {
  /** in no order, or as sort says */
  entries: File[];
  /** there were more */
  truncated: boolean;
}

export interface DirectoryRequest {
  /** absolute, or relative to the workspace */
  path: string;
  /** octal; default 0755 */
  mode?: string;
  /** make missing directories; one that exists is fine */
  parents?: boolean;
  /** of the paths, patterns and texts of the request; default utf-8 */
  encoding?: string;
}

export interface MoveRequest {
  /** absolute, or relative to the workspace */
  from: string;
  /** absolute, or relative to the workspace */
  to: string;
  /** replace what is there; else that is EXISTS */
  overwrite?: boolean;
  /** of the paths, patterns and texts of the request; default utf-8 */
  encoding?: string;
}

export interface GlobRequest {
  /** * ? [] {} and **, which crosses directories */
  pattern: string;
  /** absolute, or relative to the workspace; default: the workspace */
  path?: string;
  /** directories too */
  include_dirs?: boolean;
  /** paths */
  limit?: number;
  /** then what was found so far is the answer */
  timeout_ms?: number;
  /** of the paths, patterns and texts of the request; default utf-8 */
  encoding?: string;
}

export interface GlobResult {
  /** what matched */
  paths: string[];
  /** of every path */
  encoding: string;
  /** there were more */
  truncated: boolean;
  /** the search stopped early */
  timed_out: boolean;
}

export interface GrepRequest {
  /** a Perl-compatible regular expression */
  pattern: string;
  /** absolute, or relative to the workspace; default: the workspace */
  path?: string;
  /** only files of this name */
  glob?: string;
  /** the pattern is plain text */
  literal?: boolean;
  /** upper and lower case are the same */
  ignore_case?: boolean;
  /** lines before and after */
  context?: number;
  /** matches */
  limit?: number;
  /** then what was found so far is the answer */
  timeout_ms?: number;
  /** of the paths, patterns and texts of the request; default utf-8 */
  encoding?: string;
}

export interface GrepResult {
  /** what matched */
  matches: Match[];
  /** there were more */
  truncated: boolean;
  /** the search stopped early */
  timed_out: boolean;
  /** files looked into */
  files_searched: number;
}

export interface Match {
  /** file */
  path: string;
  /** from 1 */
  line: number;
  /** the line, cut at 4096 bytes */
  text: string;
  /** lines before, with context */
  before?: string[];
  /** lines after, with context */
  after?: string[];
  /** of path, text, before and after */
  encoding: string;
}

export interface Hash {
  /** 64 hex digits */
  sha256: string;
  /** bytes */
  size: number;
}

export interface EditRequest {
  /** absolute, or relative to the workspace */
  path: string;
  /** the text to replace */
  old: string;
  /** the text instead */
  new: string;
  /** every place; else it must be the only one */
  all?: boolean;
  /** of the paths, patterns and texts of the request; default utf-8 */
  encoding?: string;
}

export interface EditResult {
  /** places changed */
  replacements: number;
  /** bytes of the file now */
  size: number;
}

export interface UnpackResult {
  /** devices, FIFOs, set-user-ID bits, all but the last of several entries of one name; at most 100 */
  skipped: Skipped[];
  /** entries unpacked */
  files: number;
  /** more was left out than is listed */
  truncated: boolean;
}

export interface Skipped {
  /** as the archive has it */
  name: string;
  /** of name */
  encoding: string;
  /** what was left out of it, and why */
  reason: string;
}

export interface Skills {
  /** by name */
  skills: Skill[];
  /** of the box */
  workspace: string;
  /** files that could not be read as what they should be: PATH: why */
  bad: string[];
}

export interface Skill {
  /** of its folder, or of its file without .md: what paths and other calls name it by */
  id: string;
  /** what it calls itself */
  name: string;
  /** what it is for */
  description: string;
  /** its folder, or file, in the box */
  path: string;
  /** the file that says all this; null: no such file */
  file: string | null;
  /** whose it is */
  source: string;
  /** as it says */
  author: string | null;
  /** as it says */
  version: string | null;
  /** as it says */
  license: string | null;
  /** as it says */
  sharing: string | null;
  /** that it wants */
  model: string | null;
  /** as it says */
  tags: string[] | null;
  /** that it may use; null: all */
  tools: string[] | null;
}

export interface Agents {
  /** by name */
  agents: Agent[];
  /** of the box */
  workspace: string;
  /** files that could not be read as what they should be: PATH: why */
  bad: string[];
}

export interface Agent {
  /** of its folder, or of its file without .md: what paths and other calls name it by */
  id: string;
  /** what it calls itself */
  name: string;
  /** what it is for */
  description: string;
  /** its folder, or file, in the box */
  path: string;
  /** the file that says all this; null: no such file */
  file: string | null;
  /** whose it is */
  source: string;
  /** as it says */
  author: string | null;
  /** as it says */
  version: string | null;
  /** as it says */
  license: string | null;
  /** as it says */
  sharing: string | null;
  /** that it wants */
  model: string | null;
  /** as it says */
  tags: string[] | null;
  /** that it may use; null: all */
  tools: string[] | null;
  /** it may remember */
  memory: boolean;
  /** it may send messages */
  send_message: boolean;
  /** it may start sub-agents */
  spawn_agent: boolean;
}

export interface Uploaded {
  /** that the archive held */
  skills: string[];
  /** commands still use the old ones: they are replaced when the last of these has ended */
  pending: boolean;
  /** processes in the background that may hold the old ones */
  background: number;
}

export interface InstallRequest {
  /** a number, NAME or AUTHOR/NAME, perhaps with @VERSION; without one the newest */
  entry: string;
  /** take the place of what is there; else that is EXISTS */
  replace?: boolean;
}

export interface InstalledEntry {
  /** of this version */
  id: number;
  /** what it is */
  type: string;
  /** of its folder or file */
  name: string;
  /** the user who published it */
  author: string;
  /** never another content */
  version: string;
  /** who sees it */
  sharing: string;
  /** what it is for */
  description: string;
  /** separated by commas */
  tags: string;
  /** of the content */
  sha256: string;
  /** of all its files */
  bytes: number;
  /** how many */
  files: number;
  /** when it was published */
  created_at: string;
  /** when what is said about it changed last */
  updated_at: string;
  /** where it is in the box */
  path: string;
}

export interface SyncRequest {
  /** from_base: the user's copy becomes the agent's; to_base: the agent's becomes the user's, for admins. What only the target has is removed there */
  direction: string;
}

export interface SyncReport {
  /** how they got there; none: no global skills are configured */
  how: string;
  /** of the global tree; null: no tree is configured */
  version: string | null;
  /** when; null: never */
  at: string | null;
  /** what went wrong; null: nothing */
  error: string | null;
  /** files that were copied */
  written: number;
  /** files that are no longer there */
  removed: number;
  /** files that the user had changed; they are not replaced */
  kept: number;
  /** files that were there already */
  unchanged: number;
}

export interface RegistryEntries {
  /** the newest first */
  entries: RegistryEntry[];
  /** entries that fit, shown or not */
  total: number;
}

export interface RegistryEntry {
  /** of this version */
  id: number;
  /** what it is */
  type: string;
  /** of its folder or file */
  name: string;
  /** the user who published it */
  author: string;
  /** never another content */
  version: string;
  /** who sees it */
  sharing: string;
  /** what it is for */
  description: string;
  /** separated by commas */
  tags: string;
  /** of the content */
  sha256: string;
  /** of all its files */
  bytes: number;
  /** how many */
  files: number;
  /** when it was published */
  created_at: string;
  /** when what is said about it changed last */
  updated_at: string;
}

export interface PublishRequest {
  /** where it is */
  box: string;
  /** of its folder, or of its file without .md */
  name: string;
  /** default skill */
  type?: string;
  /** default: what its own file says, else the next whole number */
  version?: string;
  /** private: only its author and admins see it; default: what its own file says, else public */
  sharing?: string;
  /** default: its own file's */
  description?: string;
  /** separated by commas; default: its own file's */
  tags?: string;
}

export interface Tools {
  /** name, title, description, input_schema, output_schema, annotations */
  tools: Record<string, any>[];
}

export interface McpServers {
  /** by name */
  servers: McpServer[];
}

export interface McpServer {
  /** in front of its tools' names: NAME__TOOL */
  name: string;
  /** whose it is */
  user: string;
  /** the program */
  command: string;
  /** its arguments */
  args: string[];
  /** variables of its environment; their values are not shown */
  env_names: string[];
  /** where it runs, if not in the workspace */
  cwd: string;
  /** on which machine, if on one */
  machine: string;
  /** in whose box, if always in the same */
  thread: string;
  /** it is not started */
  disabled: boolean;
  /** of a call */
  timeout_ms: number;
  /** until it has listed its tools */
  start_timeout_ms: number;
  /** it is in the configuration and cannot be changed here */
  configured: boolean;
  /** what this daemon started of it */
  running: Record<string, any>[];
}

export interface ToolResult {
  /** what an agent would see */
  text: string;
  /** the text says what went wrong */
  is_error: boolean;
  /** the same by the tool's output_schema, where it has one */
  structured?: Record<string, any>;
  /** a picture, where the tool answers with one */
  image?: ToolImage;
  /** the parts of an MCP server's answer that are not text, as MCP has them */
  content?: Record<string, any>[];
}

export interface ToolImage {
  /** such as image/png */
  mime_type: string;
  /** base64 */
  data: string;
}

export interface BangRequest {
  /** what a person typed: !COMMAND, !cd DIR, !get FILE, or !! to repeat the last command */
  text: string;
  /** the sender, for tokens without a user; default: the token's user, else 'default' */
  user?: string;
  /** milliseconds after which the command and all it started are killed; default 120000 */
  timeout_ms?: number;
  /** longer output is written to a file in the box, and its beginning is shown; default 16000 characters */
  max_chars?: number;
}

export interface BangResult {
  /** what was run, without its '!' */
  command: string;
  /** the answer for the chat, in Markdown */
  text: string;
  /** nothing was run, or it was killed */
  is_error: boolean;
  /** id of the box; GET /v1/boxes/ID/files has the file */
  box: string | null;
  /** working directory of the thread afterwards */
  cwd: string;
  /** the text has only the beginning of the output; the file has more */
  truncated: boolean;
  /** path in the box: the long output, or the file that !get names; null if there is none */
  file: string | null;
  /** its size */
  file_bytes: number | null;
  /** null if it was killed or is still running */
  exit_code: number | null;
  /** the signal that killed it, such as SIGKILL */
  signal: string | null;
  /** it was killed because it timed out */
  timed_out: boolean;
  /** a process of the box was killed for lack of memory */
  oom_killed: boolean;
}

export interface StaleResults {
  /** ids of kept results that went stale; each is reported once */
  stale: string[];
  /** the same, with why */
  results: StaleResult[];
}

export interface StaleResult {
  /** of the kept result */
  id: string;
  /** of the file that it shows */
  path: string;
  /** what happened to the file since */
  change: string;
}

export interface Machines {
  /** in no order */
  machines: Machine[];
}

export interface Machine {
  /** its name, from its token */
  name: string;
  /** whose it is */
  user: string;
  /** it is connected now */
  online: boolean;
  /** online or offline since then */
  since: string;
  /** there and back; null: not known */
  latency_ms: number | null;
  /** how often it connected */
  connections: number;
  /** its directory, on the machine */
  workspace: string;
  /** of its commands */
  shell: string;
  /** of its runner */
  version: string;
  /** jail, none, or empty: it does not say */
  isolation: string;
  /** system and processor */
  platform: string;
  /** where it connects from */
  address: string;
  /** how messages are sent to it */
  form: string;
}

export interface Workers {
  /** in no order */
  workers: Worker[];
}

export interface Worker {
  /** its name, from its token */
  name: string;
  /** it is connected now */
  online: boolean;
  /** it gets no new boxes */
  draining: boolean;
  /** online or offline since then */
  since: string;
  /** there and back; null: not known */
  latency_ms: number | null;
  /** that it has, running or not */
  boxes: number;
  /** that it takes */
  boxes_max: number;
  /** that its boxes may take */
  memory_mb: number;
  /** of it, as the worker last reported */
  memory_free_mb: number;
  /** that boxes on it can be made from */
  templates: string[];
  /** of its program */
  version: string;
  /** system and processor */
  platform: string;
  /** where it connects from */
  address: string;
}

export interface Relocation {
  /** worker that it was on */
  from: string;
  /** worker that it is on */
  to: string;
  /** how long it took */
  duration_ms: number;
  /** processes that ran in the box */
  processes_ended: number;
}

/** Method, and path with the numbers of its parameters. */
export const ROUTES: Record<string, [string, ...(string | number)[]]> = {
  health: ["GET", "/healthz"],
  info: ["GET", "/v1/info"],
  whoami: ["GET", "/v1/whoami"],
  ticket_for: ["POST", "/v1/tickets"],
  login: ["POST", "/v1/login"],
  metrics: ["GET", "/metrics"],
  openapi: ["GET", "/openapi.json"],
  root: ["GET", "/"],
  audit: ["GET", "/v1/audit"],
  audit_verify: ["GET", "/v1/audit/verify"],
  token_create: ["POST", "/v1/tokens"],
  token_list: ["GET", "/v1/tokens"],
  token_revoke: ["DELETE", "/v1/tokens/", 0],
  secret_set: ["PUT", "/v1/secrets/", 0],
  secret_get: ["GET", "/v1/secrets/", 0],
  secret_removed: ["DELETE", "/v1/secrets/", 0],
  secret_list: ["GET", "/v1/secrets"],
  network_ca: ["GET", "/v1/network/ca"],
  user_list: ["GET", "/v1/users"],
  agent_names: ["GET", "/v1/agents"],
  template_list: ["GET", "/v1/templates"],
  template_import: ["PUT", "/v1/templates/", 0],
  template_remove: ["DELETE", "/v1/templates/", 0],
  events: ["GET", "/v1/events"],
  box_acquire: ["POST", "/v1/boxes"],
  box_list: ["GET", "/v1/boxes"],
  box_destroy_all: ["DELETE", "/v1/boxes"],
  box_usage_stream: ["GET", "/v1/boxes/usage"],
  box_get: ["GET", "/v1/boxes/", 0],
  box_destroy: ["DELETE", "/v1/boxes/", 0],
  box_usage: ["GET", "/v1/boxes/", 0, "/usage"],
  box_release: ["POST", "/v1/boxes/", 0, "/release"],
  box_pause: ["POST", "/v1/boxes/", 0, "/pause"],
  box_resume: ["POST", "/v1/boxes/", 0, "/resume"],
  box_start: ["POST", "/v1/boxes/", 0, "/start"],
  secret_bind: ["PUT", "/v1/boxes/", 0, "/secrets/", 1],
  secret_unbind: ["DELETE", "/v1/boxes/", 0, "/secrets/", 1],
  secret_bindings: ["GET", "/v1/boxes/", 0, "/secrets"],
  network_get: ["GET", "/v1/boxes/", 0, "/network"],
  network_set: ["PUT", "/v1/boxes/", 0, "/network"],
  network_patch: ["PATCH", "/v1/boxes/", 0, "/network"],
  network_remove: ["DELETE", "/v1/boxes/", 0, "/network"],
  network_test: ["GET", "/v1/boxes/", 0, "/network/test"],
  network_learned: ["GET", "/v1/boxes/", 0, "/network/learned"],
  network_answer: ["POST", "/v1/boxes/", 0, "/network/answers"],
  snapshot_create: ["POST", "/v1/boxes/", 0, "/snapshots"],
  snapshot_list: ["GET", "/v1/boxes/", 0, "/snapshots"],
  snapshot_remove: ["DELETE", "/v1/boxes/", 0, "/snapshots/", 1],
  rollback: ["POST", "/v1/boxes/", 0, "/rollback"],
  fork: ["POST", "/v1/boxes/", 0, "/fork"],
  box_export: ["POST", "/v1/boxes/", 0, "/export"],
  diff: ["GET", "/v1/boxes/", 0, "/diff"],
  exec: ["POST", "/v1/boxes/", 0, "/exec"],
  process_start: ["POST", "/v1/boxes/", 0, "/processes"],
  process_list: ["GET", "/v1/boxes/", 0, "/processes"],
  process_get: ["GET", "/v1/boxes/", 0, "/processes/", 1],
  process_output: ["GET", "/v1/boxes/", 0, "/processes/", 1, "/output"],
  process_stdin: ["POST", "/v1/boxes/", 0, "/processes/", 1, "/stdin"],
  process_signal: ["POST", "/v1/boxes/", 0, "/processes/", 1, "/signal"],
  session_open: ["POST", "/v1/boxes/", 0, "/sessions"],
  session_list: ["GET", "/v1/boxes/", 0, "/sessions"],
  session_get: ["GET", "/v1/boxes/", 0, "/sessions/", 1],
  session_end: ["DELETE", "/v1/boxes/", 0, "/sessions/", 1],
  session_exec: ["POST", "/v1/boxes/", 0, "/sessions/", 1, "/exec"],
  session_stdin: ["POST", "/v1/boxes/", 0, "/sessions/", 1, "/stdin"],
  session_stop: ["POST", "/v1/boxes/", 0, "/sessions/", 1, "/stop"],
  pty: ["GET", "/v1/boxes/", 0, "/pty"],
  port: ["GET", "/v1/boxes/", 0, "/ports/", 1, "/", 2],
  port_forward: ["GET", "/v1/boxes/", 0, "/ports/", 1],
  ticket: ["POST", "/v1/boxes/", 0, "/tickets"],
  file_get: ["GET", "/v1/boxes/", 0, "/files"],
  file_put: ["PUT", "/v1/boxes/", 0, "/files"],
  file_delete: ["DELETE", "/v1/boxes/", 0, "/files"],
  file_stat: ["GET", "/v1/boxes/", 0, "/stat"],
  file_list: ["GET", "/v1/boxes/", 0, "/list"],
  file_mkdir: ["POST", "/v1/boxes/", 0, "/mkdir"],
  file_move: ["POST", "/v1/boxes/", 0, "/move"],
  file_glob: ["POST", "/v1/boxes/", 0, "/glob"],
  file_grep: ["POST", "/v1/boxes/", 0, "/grep"],
  file_hash: ["GET", "/v1/boxes/", 0, "/hash"],
  file_edit: ["POST", "/v1/boxes/", 0, "/edit"],
  file_watch: ["GET", "/v1/boxes/", 0, "/watch"],
  archive_get: ["GET", "/v1/boxes/", 0, "/archive"],
  archive_put: ["PUT", "/v1/boxes/", 0, "/archive"],
  skill_list: ["GET", "/v1/boxes/", 0, "/skills"],
  skill_upload: ["PUT", "/v1/boxes/", 0, "/skills"],
  skill_install: ["POST", "/v1/boxes/", 0, "/skills"],
  agent_list: ["GET", "/v1/boxes/", 0, "/agents"],
  agent_install: ["POST", "/v1/boxes/", 0, "/agents"],
  skill_remove: ["DELETE", "/v1/boxes/", 0, "/skills/", 1],
  skill_sync: ["POST", "/v1/boxes/", 0, "/skills/", 1, "/sync"],
  agent_remove: ["DELETE", "/v1/boxes/", 0, "/agents/", 1],
  synced: ["GET", "/v1/boxes/", 0, "/sync"],
  sync: ["POST", "/v1/boxes/", 0, "/sync"],
  registry_search: ["GET", "/v1/registry"],
  registry_publish: ["POST", "/v1/registry"],
  registry_get: ["GET", "/v1/registry/", 0],
  registry_unpublish: ["DELETE", "/v1/registry/", 0],
  tool_list: ["GET", "/v1/tools"],
  box_tools: ["GET", "/v1/boxes/", 0, "/tools"],
  thread_tools: ["GET", "/v1/threads/", 0, "/tools"],
  server_list: ["GET", "/v1/mcp/servers"],
  server_get: ["GET", "/v1/mcp/servers/", 0],
  server_put: ["PUT", "/v1/mcp/servers/", 0],
  server_remove: ["DELETE", "/v1/mcp/servers/", 0],
  tool: ["POST", "/v1/boxes/", 0, "/tools/", 1],
  thread_tool: ["POST", "/v1/threads/", 0, "/tools/", 1],
  bang: ["POST", "/v1/threads/", 0, "/bang"],
  offload_refresh: ["POST", "/v1/boxes/", 0, "/offload/refresh"],
  thread_offload_refresh: ["POST", "/v1/threads/", 0, "/offload/refresh"],
  mcp: ["POST", "/mcp"],
  mcp_end: ["DELETE", "/mcp"],
  machine_list: ["GET", "/v1/machines"],
  machine_send_away: ["DELETE", "/v1/machines/", 0],
  worker_list: ["GET", "/v1/workers"],
  worker_drain: ["POST", "/v1/workers/", 0, "/drain"],
  worker_open: ["DELETE", "/v1/workers/", 0, "/drain"],
  box_relocate: ["POST", "/v1/boxes/", 0, "/relocate"],
};
