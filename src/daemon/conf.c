/* The table of options, and how values are set. Called by main at start and on SIGHUP. Invariant: an option that is not
 * understood stops the start; nothing is ignored. */
#include "daemon/conf.h"
#include "base/base.h"
#include "backend/backend.h"
#include "backend/places.h"
#include "box/network.h"
#include "daemon/cluster.h"
#include "daemon/conf_table.h"

#define ROW(label, kind, member, bits)                                                                                 \
    .name = (label), .type = CONF_##kind, .offset = offsetof(struct conf, member), .flags = (bits)
/* Options that may differ by user can also change while the daemon runs. */
#define SHARE(label, kind, member, bits)                                                                               \
    .name = (label), .type = CONF_##kind, .offset = offsetof(struct conf_share, member),                               \
    .flags = CONF_USER | CONF_AT_ONCE | (bits)

const struct row conf_options[] = {
    {ROW("listen", TEXT, listen, 0), .value = "ADDRESS", .initial = "127.0.0.1:7070",
     .text = "HOST:PORT or unix:PATH, several by ','; anything wider than loopback demands tokens"},
    {ROW("state", TEXT, state, 0), .value = "DIR",
     .text = "directory for boxes; default /var/lib/cubby as root, else $XDG_STATE_HOME/cubby or ~/.local/state/cubby"},
    {ROW("standby", BOOL, standby, 0), .initial = "false",
     .text = "one of several heads of a state directory: wait while another serves it, then take over"},
    {ROW("runner", TEXT, runner, 0), .value = "FILE",
     .text = "path of cubby-runner; default: in cubbyd's directory, else ../libexec/cubby/cubby-runner"},
    {SHARE("backend", TEXT, backend, 0), .value = "NAME", .initial = "jail",
     .text = "how boxes are made when a request does not say"},
    {SHARE("machine", TEXT, machine, 0), .value = "NAME",
     .text = "boxes of requests without machine and backend are on this machine of the user, never on this server; "
             "'active': on the one that is online"},
    {SHARE("backends", LIST, backends, 0), .value = "NAME",
     .text = "backends that a request may name; default: all that are there"},
    {ROW("allow_local", BOOL, allow_local, CONF_HOST), .initial = "false",
     .text = "allow the backend 'local', which walls off nothing: only where every client is trusted"},
    {ROW("allow_weaker", LIST, allow_weaker, 0), .choices = "landlock|limits",
     .text = "jails may do without these where the machine lacks them: landlock, limits (the default ones)"},
    {ROW("local_maps", LIST, local_maps, CONF_HOST), .value = "MAP",
     .text = "backend local: paths as clients see them and directories of this machine, VIRTUAL=REAL[:ro]"},
    {ROW("mount_sources", LIST, mount_sources, CONF_AT_ONCE | CONF_HOST), .value = "DIR",
     .text = "directories that boxes may mount (and all below them)"},
    {ROW("open_networks", LIST, open_networks, 0), .value = "NETWORK",
     .text = "private IPv4 networks (A.B.C.D/BITS) that boxes with network 'open' may reach; else none"},
    {ROW("gate_resolvers", LIST, gate_resolvers, 0), .value = "ADDRESS",
     .text = "resolvers (ADDRESS or ADDRESS:PORT) for boxes with a network policy; else those of /etc/resolv.conf"},
    {ROW("gate_host_ports", LIST, gate_host_ports, 0), .value = "PORT",
     .text = "ports of this machine that a policy's host:PORT may open; else none"},
    {SHARE("env", ENV, env, 0), .value = "NAME=VALUE",
     .text = "variables of every box: a mapping, or a list of NAME=VALUE"},
    {SHARE("mounts", MOUNTS, mounts, CONF_HOST | ROW_FILE),
     .text = "file only: given to every box: list of {source, target, read_only, create}; source may hold {user}, "
             "{thread}, {id}"},
    {SHARE("templates", TEMPLATES, templates, CONF_HOST), .value = "NAME",
     .text = "templates that a request may name: names, {name, path} or name: path (imported from there if missing)"},
    {SHARE("default_template", TEXT, default_template, 0), .value = "NAME", .initial = "host",
     .text = "template of a box whose request does not say"},
    {ROW("docker_host", TEXT, docker.host, 0), .value = "URL",
     .text = "backend docker: the engine, unix:///PATH or tcp://HOST:PORT; default $DOCKER_HOST, else docker's or "
             "podman's"},
    {ROW("docker_tls", BOOL, docker.tls, 0), .initial = "false", .text = "speak TLS to a tcp:// engine"},
    {ROW("docker_cert_dir", TEXT, docker.cert_dir, 0), .value = "DIR",
     .text = "directory with ca.pem, and cert.pem and key.pem to show to the engine; TLS; default $DOCKER_CERT_PATH"},
    {ROW("docker_network", TEXT, docker.network, 0), .value = "NAME",
     .text = "network of the engine that boxes with network 'open' are on; default: the engine's default one"},
    {ROW("docker_registries", REGISTRIES, docker.registries, ROW_FILE),
     .text = "file only: registries and their credentials: HOST: {username, password or password_file, token or "
             "token_file}"},
    {ROW("k8s", BOOL, k8s, 0), .initial = "false",
     .text = "workers are pods of a Kubernetes cluster: they join by their pods' tokens, and their pods are watched"},
    {ROW("k8s_api", TEXT, kube.api, 0), .value = "URL",
     .text = "k8s: the API server, https://...; default: the cluster of this pod, else a kubeconfig"},
    {ROW("k8s_ca", TEXT, kube.ca, 0), .value = "FILE", .text = "k8s: certificate authorities of k8s_api"},
    {ROW("k8s_token_file", TEXT, kube.token_file, 0), .value = "FILE",
     .text = "k8s: file with the token for k8s_api, read again when it is renewed"},
    {ROW("k8s_kubeconfig", TEXT, kube.kubeconfig, 0), .value = "FILE",
     .text = "k8s: kubeconfig; default $KUBECONFIG, else ~/.kube/config"},
    {ROW("k8s_context", TEXT, kube.context, 0), .value = "NAME",
     .text = "k8s: context of the kubeconfig; default: its current one"},
    {ROW("k8s_namespace", TEXT, kube.name_space, 0), .value = "NAME",
     .text = "k8s: namespace of the workers; default: that of this pod or of the context"},
    {ROW("k8s_audience", TEXT, k8s_audience, 0), .value = "WORD", .initial = "cubby",
     .text = "k8s: audience of the tokens that workers join with"},
    {ROW("k8s_service_accounts", LIST, k8s_service_accounts, 0), .value = "NAME",
     .text = "k8s: service accounts whose pods may join as workers; default: cubby-worker"},
    {ROW("k8s_home", TEXT, k8s_home, 0), .value = "WORD", .initial = "cubby",
     .text = "k8s: value of the label cubby.dev/home of pods that belong to this server"},
    {ROW("k8s_workers", TEXT, k8s_workers, 0), .value = "NAME",
     .text = "k8s: StatefulSet of the workers, to be scaled; default: it is not scaled"},
    {ROW("k8s_spare_boxes", INT, k8s_spare_boxes, 0), .max = 1000000, .initial = "20",
     .text = "k8s: workers are added while they could take fewer boxes more than this"},
    {ROW("k8s_min", INT, k8s_min, 0), .max = 10000, .initial = "1", .text = "k8s: fewest workers"},
    {ROW("k8s_max", INT, k8s_max, 0), .max = 10000, .initial = "10", .text = "k8s: most workers"},
    {ROW("k8s_shrink_s", INT, k8s_shrink_s, 0), .max = 86400, .initial = "300",
     .text = "k8s: a worker is drained and taken away when so long more are spare than needed"},
    {ROW("k8s_lease", TEXT, k8s_lease, 0), .value = "NAME",
     .text = "k8s: Lease that a head must hold before it serves; it stops when it loses it; default: no Lease"},
    {SHARE("docker_image", TEXT, docker_image, 0), .value = "NAME", .initial = "debian:stable-slim",
     .text = "image of a docker box whose request does not say"},
    {SHARE("docker_images", LIST, docker_images, 0), .value = "PATTERN",
     .text = "patterns of images that a request may name, * and ** as in paths; default: all"},
    {SHARE("docker_pull", TEXT, docker_pull, 0), .initial = "missing", .choices = "missing|always|never",
     .text = "when images are pulled; always and never hold for every box, missing unless a request says"},
    {SHARE("docker_runtime", TEXT, docker_runtime, 0), .value = "NAME",
     .text = "runtime of a docker box whose request does not say; default: the engine's"},
    {SHARE("docker_runtimes", LIST, docker_runtimes, 0), .value = "NAME",
     .text = "further runtimes that a request may name, such as runsc; default: none"},
    {SHARE("network", TEXT, network, CONF_OBJECT), .initial = "none", .value = "none|open|POLICY",
     .text = "network of a box whose request does not say: none, open, or a policy {allow: [...], deny: [...]}"},
    {SHARE("networks", LIST, networks, 0), .choices = "none|open|policy",
     .text = "networks that a request may ask for; default: all"},
    {SHARE("network_policy", TEXT, network_policy, CONF_OBJECT), .value = "POLICY",
     .text = "what boxes with a policy may reach at most, whatever their requests say; default: no such bound"},
    {SHARE("network_modes", LIST, network_modes, 0), .choices = "enforce|observe|ask",
     .text = "modes of policies that a request may ask for; default: all"},
    {ROW("machine_network_policy", TEXT, machine_network_policy, CONF_OBJECT), .value = "POLICY",
     .text = "the same for all users of this machine, in addition"},
    {SHARE("memory_mb", INT, memory_mb, CONF_LIMIT | ROW_OR_ZERO), .min = 16, .max = 1u << 20, .initial = "2048",
     .text = "MiB of memory of a box unless its request says; 0: no limit"},
    {SHARE("cpus", REAL, cpus, CONF_LIMIT), .max = 1024, .initial = "0", .text = "processors of a box; 0: no limit"},
    {SHARE("pids", INT, pids, CONF_LIMIT | ROW_OR_ZERO), .min = 8, .max = 1u << 22, .initial = "1024",
     .text = "processes of a box unless its request says; 0: no limit"},
    {SHARE("disk_mb", INT, disk_mb, CONF_LIMIT), .max = 1u << 30, .initial = "0",
     .text = "files of a box; 0: no limit"},
    {ROW("disk_quota", TEXT, disk_quota, 0), .initial = "auto", .choices = "auto|project|btrfs|loop|tmpfs",
     .text = "how disk_mb is kept; auto: the first that this machine can"},
    {ROW("disk_reserve", BOOL, disk_reserve, 0), .initial = "false",
     .text = "take the space for disk_mb when a box is made, so that the disk cannot be promised twice (loop)"},
    {ROW("store", TEXT, store, 0), .initial = "auto", .choices = "auto|directory|btrfs",
     .text = "where boxes lie: a directory, or a btrfs of cubby's own; auto: that where disk_mb has no cheaper way"},
    {ROW("store_mb", INT, store_mb, 0), .max = 1u << 30, .initial = "0",
     .text = "the most that the store takes from its disk; 0: all but 1 GB"},
    {SHARE("open_files", INT, open_files, CONF_LIMIT | ROW_OR_ZERO), .min = LIMIT_OPEN_FILES_LEAST,
     .max = LIMIT_OPEN_FILES, .initial = "4096",
     .text = "descriptors of one process of a box; 0: the daemon's own hard limit"},
    {SHARE("output_bytes", INT, output_bytes, CONF_LIMIT), .max = LIMIT_OUTPUT_LIMIT_BYTES, .initial = "16777216",
     .text = "largest output_limit_bytes a command of a box may have; 0: 64 MiB"},
    {SHARE("idle_timeout_ms", INT, idle_timeout_ms, 0), .max = 365ull * 86400000, .initial = "600000",
     .text = "processes of a box without a call end after that, files stay; 0: never"},
    {SHARE("busy_timeout_ms", INT, busy_timeout_ms, 0), .max = 365ull * 86400000, .initial = "86400000",
     .text =
         "a box in which background processes run is not idle for so long after its last call; 0: they do not count"},
    {ROW("replicas", INT, replicas, CONF_AT_ONCE), .max = LIMIT_BOXES, .initial = "0",
     .text = "boxes with processes at once, the oldest released one goes first; 0: as many as memory allows"},
    {ROW("memory_reserve_mb", INT, memory_reserve_mb, CONF_AT_ONCE), .max = 1u << 30, .initial = "256",
     .text = "MiB of memory that boxes leave to this machine, where replicas is 0"},
    {ROW("wake_paused", BOOL, wake_paused, CONF_AT_ONCE), .initial = "false",
     .text = "resume a paused box when it is used; else the call answers that it is paused"},
    {ROW("pool_size", INT, pool_size, 0), .max = 256, .initial = "8", .text = "jails kept ready for new boxes"},
    {ROW("end_boxes", BOOL, end_boxes, CONF_AT_ONCE), .initial = "false",
     .text = "end all boxes' processes when the daemon stops; else the next daemon adopts them"},
    {ROW("auth", TEXT, auth, CONF_AT_ONCE), .initial = "auto", .choices = "auto|peer|required",
     .text =
         "without a token, on loopback and unix sockets: auto: admin; peer: by uid, see peer_uids; required: refused. "
         "auto is peer where an option hands out files of the host, such as mounts or allow_local"},
    {ROW("peer_uids", LIST, peer_uids, CONF_AT_ONCE), .value = "UID[=USER]",
     .text = "auth peer: uids or names that are admins, as root is, or UID=USER: acts as USER; others need tokens"},
    {ROW("socket_mode", TEXT, socket_mode, 0), .value = "MODE", .initial = "0600", .text = "mode of unix sockets"},
    {ROW("socket_group", TEXT, socket_group, 0), .value = "NAME", .text = "group of unix sockets"},
    {ROW("tokens", TOKENS, tokens, CONF_AT_ONCE | ROW_FILE),
     .text = "file only: list of {token or token_sha256, user, scope admin|user|read}"},
    {SHARE("mcp_servers", SERVERS, servers, ROW_FILE),
     .text =
         "file only: MCP servers for boxes: NAME: {command, args, env, cwd, machine, thread, disabled, timeout_ms}"},
    {ROW("allowed_hosts", LIST, allowed_hosts, CONF_AT_ONCE), .value = "HOST",
     .text = "further names that Host and Origin may have"},
    {ROW("tls_cert", TEXT, tls_cert, CONF_AT_ONCE), .value = "FILE",
     .text = "PEM certificate chain; with tls_key: HTTPS"},
    {ROW("tls_key", TEXT, tls_key, CONF_AT_ONCE), .value = "FILE", .text = "PEM key"},
    {ROW("secret_key_file", TEXT, secret_key_file, 0), .value = "FILE",
     .text = "key that stored secrets are sealed with, 32 bytes or more; default: the systemd credential cubby.key, "
             "else STATE/secrets.key"},
    {ROW("gate_ca_file", TEXT, gate_ca_file, 0), .value = "FILE",
     .text = "PEM authorities that prove the names of inspected hosts; default: /etc/ssl/certs/ca-certificates.crt"},
    {ROW("secret_commands", LIST, secret_commands, CONF_AT_ONCE | CONF_HOST), .value = "COMMAND",
     .text = "commands of the daemon's user that print a secret's value (from.command)"},
    {ROW("max_upload_bytes", INT, max_upload_bytes, CONF_AT_ONCE), .min = 1, .max = 1ull << 44, .initial = "524288000",
     .text = "largest file or archive a client may send"},
    {ROW("max_unpack_entries", INT, max_unpack_entries, CONF_AT_ONCE), .min = 1, .max = 1ull << 32,
     .initial = "1000000", .text = "files and directories one archive may make"},
    {ROW("max_connections", INT, max_connections, 0), .min = 1, .max = 1u << 20, .initial = "12000",
     .text = "connections at once; beyond, the one that is idle longest is closed"},
    {ROW("max_threads", INT, max_threads, 0), .min = 1, .max = 32768, .initial = "4096", .text = "requests at once"},
    {ROW("max_boxes", INT, max_boxes, CONF_AT_ONCE), .min = 1, .max = LIMIT_BOXES, .initial = "10000",
     .text = "boxes of all users"},
    {SHARE("max_boxes_per_user", INT, max_boxes_per_user, 0), .max = LIMIT_BOXES, .initial = "4096",
     .text = "boxes of one user; 0: no limit"},
    {SHARE("user_memory_mb", INT, user_memory_mb, 0), .max = 1u << 30, .initial = "0",
     .text = "MiB of memory of all running boxes of a user, by their limits; 0: no limit"},
    {SHARE("user_disk_mb", INT, user_disk_mb, 0), .max = 1u << 30, .initial = "0",
     .text = "MiB of files of all boxes of a user, by their limits, and of what they keep; 0: no limit"},
    {ROW("users", USERS, users, CONF_AT_ONCE | ROW_FILE),
     .text = "file only: mapping of a user's name to options that apply to that user's boxes instead"},
    {ROW("box_rate_per_user", INT, box_rate_per_user, CONF_AT_ONCE), .max = 60000, .initial = "600",
     .text = "boxes a user's tokens may ask for a minute; 0: no limit"},
    {ROW("max_requests_per_user", INT, max_requests_per_user, CONF_AT_ONCE), .max = 32768, .initial = "1024",
     .text = "requests of a user's tokens at once, streams included; 0: no limit"},
    {ROW("max_calls_per_box", INT, max_calls_per_box, CONF_AT_ONCE), .max = 32768, .initial = "256",
     .text = "requests on one box at once, streams included; 0: no limit"},
    {ROW("body_memory_mb", INT, body_memory_mb, 0), .max = 1u << 20, .initial = "1024",
     .text = "MiB that JSON bodies and command output may take at once in the daemon; 0: no limit"},
    {ROW("min_rate_bytes", INT, min_rate_bytes, 0), .max = 1u << 30, .initial = "1024",
     .text = "bytes a second below which a body or an answer is too slow to wait for; streams excepted; 0: never"},
    {ROW("event_alive_ms", INT, event_alive_ms, 0), .min = 100, .max = 3600000, .initial = "15000",
     .text = "an event stream without an event for so long sends a comment, so that proxies keep it open"},
    {ROW("drain_ms", INT, drain_ms, CONF_AT_ONCE), .max = 3600000, .initial = "10000",
     .text = "after SIGTERM running requests may take so long"},
    {ROW("audit", BOOL, audit, 0), .initial = "true", .text = "record who did what in STATE/audit.db"},
    {ROW("audit_detail", BOOL, audit_detail, CONF_AT_ONCE), .initial = "true",
     .text = "commands and paths too, not only verbs"},
    {ROW("audit_days", INT, audit_days, 0), .max = 36500, .initial = "0",
     .text = "rows of the audit log older than that are cut; 0: age does not matter"},
    {ROW("audit_max_mb", INT, audit_max_mb, 0), .max = 1u << 20, .initial = "1024",
     .text = "MiB of the audit log; beyond, its oldest rows are cut; 0: no limit"},
    {ROW("tool_bash_chars", INT, tools.bash_chars, CONF_AT_ONCE), .max = LIMIT_JSON_BYTES, .initial = "20000",
     .text = "characters of a command's output that a model gets, its middle goes first; 0: no limit"},
    {ROW("tool_ls_chars", INT, tools.ls_chars, CONF_AT_ONCE), .max = LIMIT_JSON_BYTES, .initial = "20000",
     .text = "characters of a listing, its end goes; 0: no limit"},
    {ROW("tool_read_file_chars", INT, tools.read_file_chars, CONF_AT_ONCE), .max = LIMIT_JSON_BYTES, .initial = "50000",
     .text = "characters of a file, its end goes; 0: no limit"},
    {ROW("tool_glob_results", INT, tools.glob_results, CONF_AT_ONCE), .min = 1, .max = 1000, .initial = "200",
     .text = "files that glob finds unless a call says"},
    {ROW("tool_grep_results", INT, tools.grep_results, CONF_AT_ONCE), .min = 1, .max = 500, .initial = "100",
     .text = "lines that grep finds unless a call says"},
    {ROW("tool_write_file_bytes", INT, tools.write_file_bytes, CONF_AT_ONCE), .max = LIMIT_JSON_BYTES, .initial = "0",
     .text = "bytes that write_file takes in one call that does not append; 0: no limit of its own"},
    {ROW("tool_bash_timeout_ms", INT, tools.bash_timeout_ms, CONF_AT_ONCE), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .initial = "300000", .text = "time of a command unless a call says"},
    {ROW("tool_read_before_write", BOOL, tools.read_before_write, CONF_AT_ONCE), .initial = "true",
     .text = "tools change no file that the model has not read as it is now"},
    {ROW("tool_offload", BOOL, tools.offload, CONF_AT_ONCE), .initial = "true",
     .text = "results too long for a model are kept for the tool recall; else they are cut"},
    {ROW("tool_offload_chars", INT, tools.offload_chars, CONF_AT_ONCE), .max = LIMIT_JSON_BYTES, .initial = "0",
     .text = "characters from which on a result is too long; 0: its tool's own limit"},
    {ROW("tool_offload_max_mb", INT, tools.offload_max_mb, CONF_AT_ONCE), .min = 1, .max = 1u << 20, .initial = "1024",
     .text = "MiB of kept results of a user; beyond, the oldest are removed"},
    {ROW("tool_offload_days", INT, tools.offload_days, CONF_AT_ONCE), .min = 1, .max = 36500, .initial = "7",
     .text = "kept results older than that go"},
    {ROW("tool_guard", TEXT, tool_guard, CONF_AT_ONCE), .initial = "audit", .choices = "off|audit|warn|block",
     .text = "risky commands of tools: allowed, recorded in the audit log, also reported to the model, or not run"},
    {ROW("tool_guard_allow", LIST, guard_allow, CONF_AT_ONCE), .value = "COMMAND",
     .text = "the only commands that tools may run; default: any"},
    {ROW("tool_guard_absolute_paths", BOOL, guard.absolute_paths, CONF_AT_ONCE), .initial = "true",
     .text = "words of a command may be absolute paths outside tool_guard_roots"},
    {ROW("tool_guard_parents", BOOL, guard.parents, CONF_AT_ONCE), .initial = "true",
     .text = "words of a command may be paths with '..'"},
    {ROW("tool_guard_roots", LIST, guard_roots, CONF_AT_ONCE), .value = "DIR",
     .text = "directories for absolute paths; default: the workspace, /tmp, and those of programs"},
    {ROW("tool_env_remove", LIST, env_remove, CONF_AT_ONCE), .value = "PREFIX",
     .text = "variables with these prefixes, and KUBERNETES_, SERVICE_ and SECRET_, reach no command of a tool"},
    {ROW("preview_domain", TEXT, preview_domain, CONF_AT_ONCE), .value = "NAME",
     .text = "servers in boxes have hosts below this name, PORT-ID.NAME, each an origin of its own; its DNS and the "
             "certificate must cover *.NAME"},
    {ROW("page", BOOL, page, CONF_AT_ONCE), .initial = "true", .text = "serve the page at /ui; false: 404 there"},
    {ROW("aio_errors", TEXT, aio_errors, CONF_AT_ONCE), .initial = "status", .choices = "status|envelope",
     .text = "failures of the AIO dialect's file routes: by HTTP status, or 200 with success false"},
    {ROW("deerflow_home", TEXT, provision.home, CONF_AT_ONCE | CONF_HOST), .value = "DIR",
     .text =
         "state directory of the gateway on this host (its DEER_FLOW_HOME): mounted into the boxes that it provisions"},
    {ROW("deerflow_mounts", MOUNTS, provision_mounts, CONF_AT_ONCE | CONF_HOST | ROW_FILE),
     .text = "file only: further mounts of those boxes, or others at the same targets; as mounts"},
    {ROW("deerflow_environment", ENV, provision_env, CONF_AT_ONCE), .value = "NAME=VALUE",
     .text = "variables of those boxes: a mapping, or a list of NAME=VALUE"},
    {ROW("deerflow_backend", TEXT, provision.backend, CONF_AT_ONCE), .value = "NAME",
     .text = "backend of those boxes; default: as of all others"},
    {ROW("deerflow_template", TEXT, provision.template_name, CONF_AT_ONCE), .value = "NAME",
     .text = "template or image of those boxes; default: as of all others"},
    {ROW("deerflow_network", TEXT, provision.network, CONF_AT_ONCE | CONF_OBJECT), .value = "none|open|POLICY",
     .text = "network of those boxes; default: as of all others"},
    {ROW("deerflow_api_key", TEXT, provision.api_key, CONF_AT_ONCE), .value = "KEY",
     .text = "key that the gateway sends as X-API-Key; default: none, then a token of scope admin is one"},
    {ROW("deerflow_api_key_file", TEXT, provision_key_file, CONF_AT_ONCE), .value = "FILE",
     .text = "file with that key, instead"},
    {ROW("deerflow_url", TEXT, deerflow_url, CONF_AT_ONCE), .value = "URL",
     .text = "how the gateway reaches this daemon, http://HOST:PORT; default: by the name it used"},
    {ROW("e2b_domain", TEXT, e2b_domain, CONF_AT_ONCE), .value = "DOMAIN",
     .text = "sandboxes of the E2B dialect have the hosts PORT-ID.DOMAIN; with a port: that of this daemon"},
    {ROW("e2b_network", TEXT, e2b_network, CONF_AT_ONCE | CONF_OBJECT), .value = "none|open|POLICY",
     .text = "network of its sandboxes; default: open where that is possible, else as of all others"},
    {ROW("e2b_images", LIST, e2b_images, CONF_AT_ONCE), .value = "IMAGE=TEMPLATE",
     .text = "what its template builds use for an image; others come from the container engine"},
    {ROW("e2b_webhook_hosts", LIST, e2b_webhook_hosts, CONF_AT_ONCE), .value = "HOST",
     .text = "hosts that its webhooks may be sent to, HOST[:PORT] or *.NAME; default: none"},
    {ROW("e2b_volume_mb", INT, e2b_volume_mb, CONF_AT_ONCE), .max = 1u << 30, .initial = "0",
     .text = "at most so much is in a new volume; needs a state directory with project quota; 0: not bounded"},
    {ROW("global_skills", LIST, global_skills, CONF_AT_ONCE | CONF_HOST), .value = "DIR",
     .text = "directories of the host with skills that every box finds in WORKSPACE/.skills; later ones win"},
    {ROW("global_agents", LIST, global_agents, CONF_AT_ONCE | CONF_HOST), .value = "DIR",
     .text = "directories of the host with NAME.md of sub-agents, for WORKSPACE/.agents; later ones win"},
    {ROW("skill_paths", LIST, skill_paths, CONF_AT_ONCE), .value = "PATH",
     .text = "further paths at which a box with an agent sees /skills; default: /workspace/skills"},
    {ROW("skill_dialect", TEXT, skill_dialect, CONF_AT_ONCE), .initial = "seed", .choices = "seed|newest",
     .text = "which of the two HTTP dialects of skills answers where both claim a route"},
    {ROW("skill_creator", TEXT, skills.creator, CONF_AT_ONCE | CONF_HOST), .value = "PATH",
     .text = "directory or ZIP of the host that is the skill skill-creator of every agent; default: none"},
    {ROW("skill_commands", LIST, skill_commands, CONF_AT_ONCE), .value = "NAME",
     .text = "commands that those dialects may execute; default: python3 and others, see the manual"},
    {ROW("skill_exec_timeout_ms", INT, skills.exec_timeout_ms, CONF_AT_ONCE), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .initial = "300000", .text = "time of such a command"},
    {ROW("skill_upload_bytes", INT, skills.upload_bytes, CONF_AT_ONCE), .max = 1ull << 40, .initial = "0",
     .text = "largest ZIP of skills; 0: 10 MiB in the dialect seed, 50 MiB in newest"},
    {ROW("skill_unpacked_bytes", INT, skills.unpacked_bytes, CONF_AT_ONCE), .min = 1, .max = 1ull << 40,
     .initial = "268435456", .text = "what such a ZIP may hold unpacked, and largest skill that is published"},
    {ROW("skill_upload_entries", INT, skill_upload_entries, CONF_AT_ONCE), .min = 1, .max = 1000000, .initial = "10000",
     .text = "files and directories in such a ZIP, and in a published skill"},
    {ROW("skill_wait_ms", INT, skills.wait_ms, CONF_AT_ONCE), .max = 600000, .initial = "10000",
     .text = "so long a change of a skill waits for commands that use the old one before it is left pending"},
    {ROW("skill_cache_ms", INT, skills.cache_ms, CONF_AT_ONCE), .max = 86400000, .initial = "300000",
     .text = "so long a catalogue of skills may be kept where changes cannot be seen"},
    {ROW("remote_sync_bytes", INT, skills.far_rate_bytes, CONF_AT_ONCE), .max = 1ull << 40, .initial = "4194304",
     .text = "bytes a second of skills that are copied to one machine that joined; 0: no bound"},
    {ROW("remote_grace_s", INT, remote_grace_s, 0), .min = 1, .max = 86400, .initial = "60",
     .text = "so many seconds calls wait for a machine whose connection was lost"},
    {ROW("max_machines", INT, max_machines, 0), .min = 1, .max = 1u << 20, .initial = "4096",
     .text = "machines known at once; beyond, one that is offline is forgotten, or none can join"},
    {ROW("max_machines_per_user", INT, max_machines_per_user, 0), .min = 1, .max = 1u << 20, .initial = "64",
     .text = "machines of one user known at once"},
    {ROW("log_level", TEXT, log_level, CONF_AT_ONCE), .initial = "info", .choices = "error|warn|info|debug",
     .text = "info: a line a request"},
    {.name = NULL},
};

_Static_assert(sizeof conf_options / sizeof *conf_options <= CONF_ROWS, "raise CONF_ROWS");

/* ---- one value ---- */

size_t conf_row(const struct row *option) {
    return (size_t)(option - conf_options);
}

void *conf_slot(const struct conf_target *target, const struct row *option) {
    if (!(option->flags & CONF_USER))
        return (char *)target->conf + option->offset;
    return (char *)(target->user ? &target->user->share : &target->conf->share) + option->offset;
}

bool *conf_given_at(const struct conf_target *target, const struct row *option) {
    return &(target->user ? target->user->given : target->conf->given)[conf_row(option)];
}

int conf_set(const struct conf_target *target, const struct row *option, const char *value, const char *shown,
             struct err *err) {
    struct arena *arena = &target->conf->arena;
    void *at = conf_slot(target, option);
    if (option->flags & ROW_FILE)
        return err_set(err, ERR_INVALID, "%s can only be set in the configuration file", option->name);
    if (!conf_is_list(option))
        return rows_set(option, value, shown, arena, at, err);
    if (!*value)
        return err_set(err, ERR_INVALID, "%s: an entry may not be empty", option->name);
    if (option->choices && !rows_choice(option->choices, value))
        return err_set(err, ERR_INVALID, "%s must be words of %s, not '%.60s'", option->name, option->choices, shown);
    if (option->type == CONF_TEMPLATES && !policy_template(value))
        return err_set(err, ERR_INVALID, "templates: '%.64s' is not a template name", shown);
    if (option->type == CONF_ENV)
        TRY(policy_env(value, err));
    rows_texts_add(arena, at, value);
    return 0;
}

bool conf_is_list(const struct row *option) {
    return option->type == CONF_LIST || option->type == CONF_ENV || option->type == CONF_TEMPLATES;
}

bool conf_given(const struct conf *conf, const struct conf_user *user, const char *name) {
    size_t row = conf_row(rows_find(conf_options, name, strlen(name)));
    return conf->given[row] || (user && user->given[row]);
}

/* ---- all of them ---- */

/* Checks the word or the object of an option. */
static int conf_check_network(const char *option, const char *text, bool words, struct err *err) {
    bool word = words && text && (strcmp(text, "none") == 0 || strcmp(text, "open") == 0);
    if (!text || word)
        return 0;
    if (text[0] != '{')
        return err_set(err, ERR_INVALID, "%s must be %sa policy such as {allow: [pypi.org]}, not '%.40s'", option,
                       words ? "one of none|open, or " : "", text);
    return network_level(text, err) < 0 ? err_wrap(err, "%s", option) : 0;
}

static int conf_check_share(const struct conf *conf, const struct conf_user *user, const struct conf_share *share,
                            struct err *err) {
    if (!backend_find(share->backend))
        return err_set(err, ERR_INVALID, "backend: unknown backend '%.60s'", share->backend);
    for (size_t i = 0; i < share->backends.count; i++)
        if (!backend_find(share->backends.items[i]))
            return err_set(err, ERR_INVALID, "backends: unknown backend '%.60s'", share->backends.items[i]);
    TRY(share->machine ? policy_machine(share->machine, err) : 0);
    if (!policy_template(share->default_template))
        return err_set(err, ERR_INVALID, "default_template: '%.64s' is not a template name", share->default_template);
    if (share->mounts.count > LIMIT_MOUNTS)
        return err_set(err, ERR_INVALID, "mounts: at most %u are allowed", LIMIT_MOUNTS);
    TRY(conf_check_network("network", share->network, true, err)
            ?: conf_check_network("network_policy", share->network_policy, false, err));
    return conf_check_images(conf, user, share, err);
}

static int conf_check_absolute(const char *name, const struct row_texts *list, struct err *err) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i][0] != '/')
            return err_set(err, ERR_INVALID, "%s: '%.200s' must be an absolute path", name, list->items[i]);
    return 0;
}

/* Accepts "boxes.example.org", also with a port by which clients reach it. */
static bool conf_domain(const char *domain, bool lower, size_t *ret_len) {
    size_t len = strspn(domain, lower ? "abcdefghijklmnopqrstuvwxyz0123456789-."
                                      : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
    const char *port = domain + len;
    uint64_t number;
    *ret_len = len;
    return len && len <= 200 && domain[0] != '.' && domain[0] != '-' && domain[len - 1] != '.' &&
           (!*port || (*port == ':' && text_u64(port + 1, 65535, &number)));
}

/* Volumes are mounted under the name that their dialect uses. */
static void conf_volumes(struct conf *conf) {
    rows_texts_add(&conf->arena, &conf->dialect_sources, arena_printf(&conf->arena, "%s/e2b/volumes", conf->state));
}

static int conf_check_builds(const struct conf *conf, struct err *err) {
    for (size_t i = 0; i < conf->e2b_images.count; i++) {
        const char *entry = conf->e2b_images.items[i], *equals = strchr(entry, '=');
        if (!equals || equals == entry || !policy_template(equals + 1))
            return err_set(err, ERR_INVALID, "e2b_images: '%.200s' is not IMAGE=TEMPLATE", entry);
    }
    return 0;
}

/* An empty list would mean no list, and so allow everything. */
static int conf_check_tools(const struct conf *conf, struct err *err) {
    if (conf_given(conf, NULL, "tool_guard_allow") && !conf->guard_allow.count)
        return err_set(err, ERR_INVALID, "tool_guard_allow is empty; omit it to allow every command");
    bool ruled = conf->guard_allow.count || !conf->guard.absolute_paths || !conf->guard.parents;
    if (ruled && conf->guard.mode == GUARD_OFF)
        return err_set(err, ERR_INVALID,
                       "tool_guard is off, but rules for it are set (tool_guard_allow, tool_guard_absolute_paths, "
                       "tool_guard_parents)");
    return conf_check_absolute("tool_guard_roots", &conf->guard_roots, err);
}

static int conf_check_skills(const struct conf *conf, struct err *err) {
    TRY(conf_check_absolute("global_skills", &conf->global_skills, err));
    TRY(conf_check_absolute("global_agents", &conf->global_agents, err));
    TRY(conf_check_absolute("skill_paths", &conf->skill_paths, err));
    if (conf->skill_paths.count > LIMIT_SKILL_PATHS)
        return err_set(err, ERR_INVALID, "skill_paths: at most %u are allowed", LIMIT_SKILL_PATHS);
    if (conf_given(conf, NULL, "skill_commands") && !conf->skill_commands.count)
        return err_set(err, ERR_INVALID, "skill_commands is empty; omit it for the default list");
    if (conf->skills.creator && conf->skills.creator[0] != '/')
        return err_set(err, ERR_INVALID, "skill_creator: '%.200s' must be an absolute path", conf->skills.creator);
    return 0;
}

/* Checked first: an address without a port is neither wide nor loopback. */
static int conf_check_listen(const char *listen, struct err *err) {
    for (const char *at = listen; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t len = strcspn(at, ",");
        const char *colon = memrchr(at, ':', len);
        bool path = len > 5 && strncmp(at, "unix:", 5) == 0;
        bool port = colon && colon > at && colon + 1 < at + len &&
                    strspn(colon + 1, "0123456789") == len - (size_t)(colon + 1 - at);
        if (!path && !port)
            return err_set(err, ERR_INVALID, "listen: '%.*s' is not HOST:PORT or unix:PATH, such as 127.0.0.1:7070",
                           len > 200 ? 200 : (int)len, at);
    }
    return 0;
}

/* Checks that concern several options. */
static int conf_check_all(const struct conf *conf, struct err *err) {
    size_t len;
    uint64_t port;
    TRY(conf_check_listen(conf->listen, err));
    if (!conf->state)
        return err_set(err, ERR_INVALID, "no directory for state: set HOME or give --state DIR");
    for (size_t i = 0; i < conf->open_networks.count; i++)
        if (!net_network_ok(conf->open_networks.items[i]))
            return err_set(err, ERR_INVALID, "open_networks: '%s' is not an IPv4 network like 10.1.0.0/16",
                           conf->open_networks.items[i]);
    for (size_t i = 0; i < conf->gate_host_ports.count; i++)
        if (!text_u64(conf->gate_host_ports.items[i], 65535, &port) || !port)
            return err_set(err, ERR_INVALID, "gate_host_ports: '%s' is not a port", conf->gate_host_ports.items[i]);
    if (!conf->tls_cert != !conf->tls_key)
        return err_set(err, ERR_INVALID, "tls_cert and tls_key belong together: give both or neither");
    if (conf->preview_domain && !conf_domain(conf->preview_domain, true, &len))
        return err_set(err, ERR_INVALID,
                       "preview_domain: '%.200s' is not a host name in lower case, such as boxes.example.org",
                       conf->preview_domain);
    TRY(conf_check_absolute("mount_sources", &conf->mount_sources, err));
    TRY(conf_check_tools(conf, err));
    TRY(conf_check_skills(conf, err));
    TRY(conf_check_docker(conf, err));
    TRY(cluster_check(conf, err));
    TRY(conf_check_network("machine_network_policy", conf->machine_network_policy, false, err)
            ?: conf_check_network("deerflow_network", conf->provision.network, true, err)
            ?: conf_check_network("e2b_network", conf->e2b_network, true, err));
    TRY(conf_check_share(conf, NULL, &conf->share, err));
    for (size_t i = 0; i < conf->user_count; i++)
        if (conf_check_share(conf, &conf->users[i], &conf->users[i].share, err))
            return err_wrap(err, "user %s", conf->users[i].name);
    return 0;
}

/* Without --config: reads the default file if it exists. An ordinary user who may not read it runs without it; root
 * must be able to read it. */
static int conf_read_file(struct conf *conf, struct err *err) {
    if (!conf->config && access(CONF_DEFAULT_FILE, F_OK) == 0) {
        conf->closed_default = geteuid() != 0 && access(CONF_DEFAULT_FILE, R_OK) < 0;
        conf->config = conf->closed_default ? NULL : CONF_DEFAULT_FILE;
    }
    return conf->config ? conf_file(conf, conf->config, err) : 0;
}

static void conf_guard(struct conf *conf) {
    static const char *const modes[] = {
        [GUARD_OFF] = "off", [GUARD_AUDIT] = "audit", [GUARD_WARNS] = "warn", [GUARD_BLOCKS] = "block"};
    struct row_texts prefixes = {0};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i], conf->tool_guard))
            conf->guard.mode = (enum guard_mode)i;
    conf->guard.allow = (const char *const *)conf->guard_allow.items;
    conf->guard.roots = (const char *const *)conf->guard_roots.items;
    for (const char *const *prefix = tool_defaults.env_prefixes; *prefix; prefix++)
        rows_texts_add(&conf->arena, &prefixes, *prefix);
    for (size_t i = 0; i < conf->env_remove.count; i++)
        rows_texts_add(&conf->arena, &prefixes, conf->env_remove.items[i]);
    conf->tools.env_prefixes = (const char *const *)prefixes.items;
    conf->tools.guard = &conf->guard;
}

static void conf_skills(struct conf *conf) {
    struct skill_settings *skills = &conf->skills;
    skills->paths =
        conf_given(conf, NULL, "skill_paths") ? (const char *const *)conf->skill_paths.items : skill_defaults.paths;
    skills->global_skills = (const char *const *)conf->global_skills.items;
    skills->global_agents = (const char *const *)conf->global_agents.items;
    skills->second = strcmp(conf->skill_dialect, "newest") == 0;
    skills->commands = conf->skill_commands.count ? (const char *const *)conf->skill_commands.items
                       : skills->second           ? skill_second_commands
                                                  : skill_defaults.commands;
    skills->upload_entries = (unsigned)conf->skill_upload_entries;
    if (!skills->upload_bytes)
        skills->upload_bytes = skills->second ? 50u << 20 : 10u << 20;
}

static int conf_load(struct conf *conf, int argc, char **argv, struct err *err) {
    const struct conf_target target = {.conf = conf};
    size_t len;
    for (const struct row *option = conf_options; option->name; option++)
        if (option->initial)
            TRY(conf_set(&target, option, option->initial, option->initial, err));
    TRY(conf_arguments(conf, argc, argv, false, err));
    if (conf->action != CONF_SERVE && conf->action != CONF_CHECK && conf->action != CONF_CLEANUP)
        return 0;
    TRY(conf_read_file(conf, err));
    TRY(conf_arguments(conf, argc, argv, true, err));
    TRY(conf_provision(conf, err) ?: conf_check_builds(conf, err));
    const char *domain = conf->e2b_domain; /* hosts below it are ours, so their Host header is allowed */
    if (domain && !conf_domain(domain, false, &len))
        return err_set(err, ERR_INVALID, "e2b_domain must be a host name, with or without a port, not '%.100s'",
                       domain);
    if (domain)
        rows_texts_add(&conf->arena, &conf->allowed_hosts, arena_printf(&conf->arena, "*.%.*s", (int)len, domain));
    if (!conf->state)
        conf->state = places_state(&conf->arena);
    conf_volumes(conf);
    conf_guard(conf);
    conf_skills(conf);
    conf_inherit(conf);
    conf->host_at_stake = conf_hands_out_host(conf);
    return conf_check_all(conf, err);
}

int conf_new(int argc, char **argv, struct conf **ret_conf, struct err *err) {
    struct conf *conf = xcalloc(1, sizeof *conf);
    arena_init(&conf->arena);
    atomic_init(&conf->refs, 1);
    int failed = conf_load(conf, argc, argv, err);
    if (failed)
        conf_unref(conf);
    else
        *ret_conf = conf;
    return failed;
}

struct conf *conf_ref(struct conf *conf) {
    atomic_fetch_add(&conf->refs, 1);
    return conf;
}

void conf_unref(struct conf *conf) {
    if (!conf || atomic_fetch_sub(&conf->refs, 1) != 1)
        return;
    arena_done(&conf->arena);
    free(conf);
}

/* ---- showing ---- */

static const char *const type_names[] = {[CONF_TEXT] = "text",
                                         [CONF_BOOL] = "bool",
                                         [CONF_INT] = "integer",
                                         [CONF_REAL] = "number",
                                         [CONF_LIST] = "list",
                                         [CONF_ENV] = "env",
                                         [CONF_MOUNTS] = "mounts",
                                         [CONF_TEMPLATES] = "templates",
                                         [CONF_TOKENS] = "tokens",
                                         [CONF_SERVERS] = "servers",
                                         [CONF_REGISTRIES] = "registries",
                                         [CONF_USERS] = "users"};

void conf_print_options(FILE *file) {
    for (const struct row *option = conf_options; option->name; option++) {
        char range[64] = "-";
        if (option->type == CONF_INT || option->type == CONF_REAL)
            snprintf(range, sizeof range, "%s%llu..%llu", option->flags & ROW_OR_ZERO ? "0, " : "",
                     (unsigned long long)option->min, (unsigned long long)option->max);
        fprintf(file, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", option->name, type_names[option->type],
                option->choices ? option->choices : range, option->initial ? option->initial : "-",
                option->flags & CONF_AT_ONCE ? "at once" : "at restart", option->flags & CONF_USER ? "user" : "-",
                option->text);
    }
}
