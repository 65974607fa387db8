"""What the daemon answers, for type checkers. Made by clients/generate from `cubbyd --openapi`."""
from __future__ import annotations

from typing import Any

from ._wire import Answer


class Health(Answer):
    status: str
    disk: str
    audit: str


class Info(Answer):
    version: str
    default_backend: str
    started_at: str
    backends: list[dict[str, Any]]
    checks: list[Check]
    features: list[str]


class Check(Answer):
    name: str
    ok: bool
    detail: str
    fix: str | None


class Whoami(Answer):
    scope: str
    user: str | None
    token: str | None
    label: str | None
    expires_at: str | None
    open: bool
    login: bool


class TicketMade(Answer):
    ticket: str
    expires_at: str


class Login(Answer):
    token: str
    expires_at: str
    scope: str
    user: str | None


class AuditEvents(Answer):
    events: list[AuditEvent]
    next: int
    truncated: bool


class AuditEvent(Answer):
    id: int
    at: str
    verb: str
    box: str | None
    user: str | None
    actor: str | None
    scope: str | None
    token: str | None
    peer: str | None
    request_id: str | None
    status: int | None
    outcome: str
    exit_code: int | None
    signal: str | None
    timed_out: bool | None
    oom_killed: bool | None
    count: int
    bytes_in: int
    bytes_out: int
    duration_ms: float
    detail: str | None
    encoding: str
    hash: str | None


class AuditVerified(Answer):
    intact: bool
    rows: int
    first: int
    last: int
    hash: str
    broken_at: int | None
    damage: str | None


class NewToken(Answer):
    id: str
    user: str | None
    scope: str
    runner: str | None
    label: str | None
    created_at: str | None
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    token: str


class Tokens(Answer):
    tokens: list[Token]


class Token(Answer):
    id: str
    user: str | None
    scope: str
    runner: str | None
    label: str | None
    created_at: str | None
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    configured: bool


class SecretFrom(Answer):
    file: str
    env: str
    command: list[str]
    ttl_s: int


class Secret(Answer):
    name: str
    user: str | None
    hosts: list[str]
    slots: list[str]
    methods: list[str]
    paths: list[str]
    ports: list[str]
    env: str | None
    source: str
    version: int
    digest: str
    created_at: str
    updated_at: str
    last_used_at: str | None


class Secrets(Answer):
    secrets: list[Secret]


class NetworkAuthority(Answer):
    certificate: str


class Users(Answer):
    users: list[User]


class User(Answer):
    user: str
    boxes: int
    running: int


class AgentNames(Answer):
    agents: list[AgentName]


class AgentName(Answer):
    agent: str
    boxes: int
    running: int


class Mount(Answer):
    source: str
    target: str
    read_only: bool


class Box(Answer):
    id: str
    user: str
    thread: str | None
    agent: str | None
    machine: str | None
    backend: str
    state: str
    running: bool
    died: str | None
    ended: str | None
    restarted: str | None
    workspace: str
    template: str
    container: Container | None
    network: dict[str, Any] | str
    idle_timeout_ms: int
    temporary: bool
    created_at: str
    last_used_at: str
    limits: Limits
    usage: Usage
    remote: Remote | None
    labels: dict[str, Any]


class Container(Answer):
    user: str | None
    runtime: str | None
    platform: str | None
    pull: str
    read_only: bool
    init: str


class Limits(Answer):
    memory_mb: int
    cpus: float
    pids: int
    disk_mb: int
    open_files: int
    output_bytes: int


class Usage(Answer):
    memory_bytes: int | None
    cpu_ms: int | None
    pids: int | None
    disk_bytes: int | None
    net_rx_bytes: int | None
    net_tx_bytes: int | None
    read_bytes: int | None
    write_bytes: int | None
    network: UsageNetwork | None


class UsageNetwork(Answer):
    connections: int
    active: int
    denied: int
    bytes_in: int
    bytes_out: int


class Remote(Answer):
    online: bool
    since: str | None
    latency_ms: float | None
    version: str | None
    isolation: str | None
    platform: str | None
    address: str | None


class Boxes(Answer):
    boxes: list[Box]
    next: str | None


class Ended(Answer):
    ended: int


class UsageOverTime(Answer):
    samples: list[UsageAt]


class UsageAt(Answer):
    at: str
    memory_bytes: int | None
    cpu_ms: int | None
    pids: int | None
    disk_bytes: int | None
    net_rx_bytes: int | None
    net_tx_bytes: int | None
    read_bytes: int | None
    write_bytes: int | None


class Binding(Answer):
    name: str
    env: str
    placeholder: str


class Bindings(Answer):
    secrets: list[Binding]


class Network(Answer):
    network: dict[str, Any] | str
    generation: int
    warnings: list[str]
    live: bool
    active: int
    connections: int
    denied: int
    names_denied: int
    cut: int
    bytes_in: int
    bytes_out: int


class NetworkTest(Answer):
    allowed: bool
    ask: bool
    inspect: bool
    why: str


class NetworkLearned(Answer):
    network: dict[str, Any] | list[Any]


class Snapshot(Answer):
    name: str
    created_at: str
    method: str
    pause_ms: float
    copied_bytes: int
    stopped: bool
    layers: int


class Snapshots(Answer):
    snapshots: list[Snapshot]


class Rollback(Answer):
    snapshot: str
    processes_ended: int


class Export(Answer):
    changed: bool
    image: str | None
    bytes: int
    duration_ms: int
    processes_ended: int


class Diff(Answer):
    changes: list[Change]
    truncated: bool


class Change(Answer):
    path: str
    encoding: str
    change: str
    type: str
    size: int


class ExecResult(Answer):
    stdout: str
    stderr: str
    encoding: str
    exit_code: int | None
    signal: str | None
    timed_out: bool
    oom_killed: bool
    memory_limit_bytes: int | None
    stuck: bool
    stdout_bytes: int
    stderr_bytes: int
    stdout_truncated: bool
    stderr_truncated: bool
    duration_ms: int
    network_denied: list[NetworkDenied]


class NetworkDenied(Answer):
    to: str
    why: str
    count: int


class ProcessStarted(Answer):
    pid: int
    started_at: str


class Processes(Answer):
    processes: list[Process]


class Process(Answer):
    pid: int
    command: str
    state: str
    started_at: str
    tag: str
    cwd: str
    argv: list[str]
    exit_code: int | None
    signal: str | None
    timed_out: bool
    oom_killed: bool
    memory_limit_bytes: int | None
    stuck: bool
    stdout_bytes: int
    stderr_bytes: int


class Session(Answer):
    name: str
    pid: int | None
    state: str
    command: str
    exit_code: int | None
    cwd: str
    created_at: str
    used_at: str
    commands: int
    waiting: int
    quiet_ms: int
    offset: int
    next_offset: int


class Sessions(Answer):
    sessions: list[Session]


class SessionExecResult(Answer):
    output: str
    encoding: str
    output_bytes: int
    output_truncated: bool
    state: str
    exit_code: int | None
    timed_out: bool
    ended: bool
    oom_killed: bool
    cwd: str
    offset: int
    next_offset: int
    duration_ms: int


class SessionResult(Answer):
    state: str
    exit_code: int | None
    timed_out: bool
    ended: bool
    oom_killed: bool
    cwd: str
    offset: int
    next_offset: int
    duration_ms: int


class Ticket(Answer):
    ticket: str
    url: str
    origin: str
    expires_at: str


class File(Answer):
    name: str
    path: str
    encoding: str
    type: str
    special: str | None
    size: int
    mode: str
    mtime: str
    uid: int
    gid: int
    link_target: str | None


class Files(Answer):
    entries: list[File]
    truncated: bool


class GlobResult(Answer):
    paths: list[str]
    encoding: str
    truncated: bool
    timed_out: bool


class GrepResult(Answer):
    matches: list[Match]
    truncated: bool
    timed_out: bool
    files_searched: int


class Match(Answer):
    path: str
    line: int
    text: str
    before: list[str]
    after: list[str]
    encoding: str


class Hash(Answer):
    sha256: str
    size: int


class EditResult(Answer):
    replacements: int
    size: int


class UnpackResult(Answer):
    skipped: list[Skipped]
    files: int
    truncated: bool


class Skipped(Answer):
    name: str
    encoding: str
    reason: str


class Skills(Answer):
    skills: list[Skill]
    workspace: str
    bad: list[str]


class Skill(Answer):
    id: str
    name: str
    description: str
    path: str
    file: str | None
    source: str
    author: str | None
    version: str | None
    license: str | None
    sharing: str | None
    model: str | None
    tags: list[str] | None
    tools: list[str] | None


class Agents(Answer):
    agents: list[Agent]
    workspace: str
    bad: list[str]


class Agent(Answer):
    id: str
    name: str
    description: str
    path: str
    file: str | None
    source: str
    author: str | None
    version: str | None
    license: str | None
    sharing: str | None
    model: str | None
    tags: list[str] | None
    tools: list[str] | None
    memory: bool
    send_message: bool
    spawn_agent: bool


class Uploaded(Answer):
    skills: list[str]
    pending: bool
    background: int


class InstalledEntry(Answer):
    id: int
    type: str
    name: str
    author: str
    version: str
    sharing: str
    description: str
    tags: str
    sha256: str
    bytes: int
    files: int
    created_at: str
    updated_at: str
    path: str


class SyncReport(Answer):
    how: str
    version: str | None
    at: str | None
    error: str | None
    written: int
    removed: int
    kept: int
    unchanged: int


class RegistryEntries(Answer):
    entries: list[RegistryEntry]
    total: int


class RegistryEntry(Answer):
    id: int
    type: str
    name: str
    author: str
    version: str
    sharing: str
    description: str
    tags: str
    sha256: str
    bytes: int
    files: int
    created_at: str
    updated_at: str


class Tools(Answer):
    tools: list[dict[str, Any]]


class McpServers(Answer):
    servers: list[McpServer]


class McpServer(Answer):
    name: str
    user: str
    command: str
    args: list[str]
    env_names: list[str]
    cwd: str
    machine: str
    thread: str
    disabled: bool
    timeout_ms: int
    start_timeout_ms: int
    configured: bool
    running: list[dict[str, Any]]


class ToolResult(Answer):
    text: str
    is_error: bool
    structured: dict[str, Any]
    image: ToolImage
    content: list[dict[str, Any]]


class ToolImage(Answer):
    mime_type: str
    data: str


class BangResult(Answer):
    command: str
    text: str
    is_error: bool
    box: str | None
    cwd: str
    truncated: bool
    file: str | None
    file_bytes: int | None
    exit_code: int | None
    signal: str | None
    timed_out: bool
    oom_killed: bool


class StaleResults(Answer):
    stale: list[str]
    results: list[StaleResult]


class StaleResult(Answer):
    id: str
    path: str
    change: str


class Machines(Answer):
    machines: list[Machine]


class Machine(Answer):
    name: str
    user: str
    online: bool
    since: str
    latency_ms: float | None
    connections: int
    workspace: str
    shell: str
    version: str
    isolation: str
    platform: str
    address: str
    form: str


class Workers(Answer):
    workers: list[Worker]


class Worker(Answer):
    name: str
    online: bool
    draining: bool
    since: str
    latency_ms: float | None
    boxes: int
    boxes_max: int
    memory_mb: int
    memory_free_mb: int
    templates: list[str]
    version: str
    platform: str
    address: str


class Relocation(Answer):
    to: str
    duration_ms: int
    processes_ended: int
