/* Boxes on machines that joined (machine.h): the backends `remote`, for a user's own machines, and `fleet`, for workers,
 * which have boxes of all users and one of which is chosen for each new box (fleet.h). Here is only a note of each box:
 * its user and machine. Called by the provider through backend_table. Invariant:
 *
 * 1. A box is on the machine its note names, or nowhere: a machine that is offline is BUSY, never another place.
 * 2. A box that is to be stopped while its machine is offline is owed: a file in STATE/owed records it before stop
 *    returns. It is settled before anything else is asked about that box, and when the machine comes back.
 *
 * On disk: STATE/boxes/ID/{remote or worker (user, machine), paused}, STATE/owed/ID (user, machine, "files" or
 * "all"). */

#include "base/base.h"
#include "backend/backend.h"
#include "backend/remote/remote.h"
#include "backend/trash.h"
#include "base/sync.h"

enum {
    NOTE_BYTES = 512,
    USAGE_AGE_MS = 2000,
    USAGE_WAIT_MS = 100,
    TASK_STACK = 256 << 10,
    OWED_DAYS = 90,
    DROP_MS = 60000
};

/* ---- notes ---- */

int remote_note_write(int dirfd, const char *path, const struct remote_note *note, bool owed, struct err *err) {
    const char *text = text_make(NOTE_BYTES, "%s\n%s\n%s", note->user, note->machine,
                                 !owed              ? ""
                                 : note->coming     ? "coming\n"
                                 : note->layer      ? "layer\n"
                                 : note->keep_files ? "files\n"
                                                    : "all\n");
    int r = fd_replace_file(dirfd, path, text, strlen(text));
    return r < 0 ? err_errno(err, -r, "noting where box %.40s is", path) : 0;
}

/* False: no readable note. */
static bool remote_note_read(int dirfd, const char *path, struct remote_note *ret_note) {
    char text[NOTE_BYTES], how[8] = "";
    struct remote_note note = {0};
    if (fd_read_file(dirfd, path, text, sizeof text) <= 0)
        return false;
    _Static_assert(LIMIT_USER_BYTES == 128, "the widths below");
    if (sscanf(text, "%128[^\n]\n%128[^\n]\n%7[^\n]", note.user, note.machine, how) < 2)
        return false;
    note.keep_files = strcmp(how, "all") != 0;
    note.coming = strcmp(how, "coming") == 0;
    note.layer = note.coming || strcmp(how, "layer") == 0;
    *ret_note = note;
    return true;
}

bool remote_box_note(struct backend *backend, const char *id, struct remote_note *ret_note) {
    return remote_note_read(backend->boxes_fd, text_make(40, "%.16s/%s", id, backend->mark), ret_note);
}

/* Of whose machines its machine is one. */
static const char *remote_user(const struct backend *backend, const struct spec *spec) {
    return backend->fleet ? MACHINE_WORKERS : spec->user;
}

/* ---- pending notices for offline machines ---- */

static struct remote_claim *remote_claimed_locked(struct backend *backend, const char *name) {
    return list_find(backend->claims, claim, strcmp(claim->name, name) == 0);
}

static void remote_claim_begin_locked(struct backend *backend, const char *name) {
    struct remote_claim *claim = xcalloc(1, sizeof *claim);
    snprintf(claim->name, sizeof claim->name, "%s", name);
    list_push(backend->claims, claim);
}

static int remote_owed_pay(struct backend *backend, const char *name, struct err *err) {
    struct remote_note note;
    struct machine_session *session;
    const char *id = text_make(17, "%.*s", (int)strcspn(name, "+"), name);
    if (!remote_note_read(backend->owed_fd, name, &note)) {
        unlinkat(backend->owed_fd, name, 0);
        return 0;
    }
    autoarena arena = ARENA_EMPTY;
    if (note.coming && text_list_has((const char *const *)worker_holders(backend, id, &arena), note.machine)) {
        unlinkat(backend->owed_fd, name, 0); /* it came */
        return 0;
    }
    TRY(machine_session_get(backend->env->machines, note.user, note.machine, &session, err));
    json_t *answer = NULL;
    int r = note.layer ? session->ops->ask(session->connection, "drop_layer", id, NULL, NULL, DROP_MS, &answer, err)
                       : session->ops->stop(session->connection, id, note.keep_files, err);
    json_decref(answer);
    machine_session_put(session);
    if (r == 0 || r == -ERR_NOT_FOUND)
        unlinkat(backend->owed_fd, name, 0);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

int remote_owed_settle(struct backend *backend, const char *id, struct err *err) {
    pthread_mutex_lock(&backend->lock);
    while (remote_claimed_locked(backend, id))
        pthread_cond_wait(&backend->changed, &backend->lock);
    bool owed = faccessat(backend->owed_fd, id, F_OK, 0) == 0;
    if (owed)
        remote_claim_begin_locked(backend, id);
    pthread_mutex_unlock(&backend->lock);
    if (!owed)
        return 0;
    int r = remote_owed_pay(backend, id, err);
    pthread_mutex_lock(&backend->lock);
    struct remote_claim *claim = remote_claimed_locked(backend, id);
    list_remove(backend->claims, claim);
    free(claim);
    pthread_cond_broadcast(&backend->changed);
    pthread_mutex_unlock(&backend->lock);
    return r;
}

/* Its machine is back. A failed notice is sent again before the next request about the box. */
static void remote_owed_settle_machine(void *context, const char *user, const char *name) {
    struct backend *backend = context;
    struct err ignored;
    struct remote_note note;
    bool worker = strcmp(user, MACHINE_WORKERS) == 0;
    if (worker != (backend->fleet != NULL))
        return;
    struct machine_session *session;
    if (worker)
        fleet_came(backend->fleet, name);
    if (worker && machine_session_get(backend->env->machines, user, name, &session, &ignored) == 0) {
        session->ops->answers(session->connection, MACHINE_ANSWER_MS); /* a proxy that drops records is noticed */
        machine_session_put(session);
    }
    autodir *dir = fd_opendir(backend->owed_fd, ".", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (strlen(entry->d_name) < REMOTE_OWED_BYTES && remote_note_read(backend->owed_fd, entry->d_name, &note) &&
            strcmp(note.user, user) == 0 && strcmp(note.machine, name) == 0)
            remote_owed_settle(backend, entry->d_name, &ignored);
}

/* ---- work in the background ---- */

struct task {
    struct backend *backend;
    char id[REMOTE_OWED_BYTES];
    void (*run)(struct backend *backend, const char *id);
};

static void *remote_task_main(void *argument) {
    struct task *task = argument;
    struct backend *backend = task->backend;
    task->run(backend, task->id);
    free(task);
    autolock(&backend->lock);
    backend->tasks--;
    pthread_cond_broadcast(&backend->changed);
    return NULL;
}

static bool remote_task_start_locked(struct backend *backend, const char *id,
                                     void (*run)(struct backend *backend, const char *id)) {
    struct task *task = xcalloc(1, sizeof *task);
    task->backend = backend;
    task->run = run;
    snprintf(task->id, sizeof task->id, "%s", id);
    bool made = thread_detached(remote_task_main, task, TASK_STACK) == 0;
    backend->tasks += made;
    if (!made)
        free(task);
    return made;
}

static void remote_task_pay(struct backend *backend, const char *id) {
    struct err ignored; /* else when the machine is back, or before it is asked again */
    remote_owed_settle(backend, id, &ignored);
}

int remote_owe_copy(struct backend *backend, const char *id, const char *machine, const char *how, struct err *err) {
    struct remote_note note = {
        .user = MACHINE_WORKERS, .layer = strcmp(how, "layer") == 0, .coming = strcmp(how, "coming") == 0};
    const char *name = text_make(REMOTE_OWED_BYTES, "%.16s+%s", id, machine);
    snprintf(note.machine, sizeof note.machine, "%s", machine);
    autolock(&backend->lock);
    while (remote_claimed_locked(backend, name))
        pthread_cond_wait(&backend->changed, &backend->lock);
    int r = remote_note_write(backend->owed_fd, name, &note, true, err);
    if (r == 0 && !note.coming)
        remote_task_start_locked(backend, name, remote_task_pay);
    return r;
}

/* ---- opening ---- */

static void remote_count(void *context, const char *id) {
    struct backend *backend = context;
    struct remote_note note;
    if (remote_box_note(backend, id, &note))
        fleet_count(backend->fleet, note.machine, 1);
}

static int remote_open_as(const struct backend_env *env, bool fleet, struct backend **ret_backend, struct err *err) {
    if (!env->machines)
        return err_set(err, ERR_UNSUPPORTED, "backend %s is the daemon's: machines join cubbyd, with `cubby join`",
                       fleet ? "fleet" : "remote");
    autofd state = open(env->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state < 0 || (mkdirat(state, "boxes", 0700) < 0 && errno != EEXIST) ||
        (mkdirat(state, "owed", 0700) < 0 && errno != EEXIST) ||
        (mkdirat(state, "layers", 0700) < 0 && errno != EEXIST))
        return err_errno(err, errno, "state directory '%s'", env->state_dir);
    autofd boxes = openat(state, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd owed = openat(state, "owed", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd layers = openat(state, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (boxes < 0 || owed < 0 || layers < 0)
        return err_errno(err, errno, "state directory '%s'", env->state_dir);
    struct backend *backend = xcalloc(1, sizeof *backend);
    const char *path = text_make(4200, "%s/trash", env->state_dir);
    *backend = (struct backend){.env = env,
                                .mark = fleet ? "worker" : "remote",
                                .boxes_fd = fd_take(&boxes),
                                .owed_fd = fd_take(&owed),
                                .layers_fd = fd_take(&layers),
                                .trash = trash_new(path)};
    pthread_mutex_init(&backend->lock, NULL);
    pthread_mutex_init(&backend->layers_lock, NULL);
    cond_init(&backend->changed);
    if (fleet) {
        backend->fleet = fleet_new(env->machines, env->state_dir);
        backend_list_boxes(backend->boxes_fd, backend->mark, remote_count, backend, ERR_IGNORED);
    }
    machines_listen(env->machines, remote_owed_settle_machine, backend);
    *ret_backend = backend;
    return 0;
}

static int remote_open(const struct backend_env *env, struct backend **ret_backend, struct err *err) {
    return remote_open_as(env, false, ret_backend, err);
}

static int remote_open_fleet(const struct backend_env *env, struct backend **ret_backend, struct err *err) {
    return remote_open_as(env, true, ret_backend, err);
}

static void remote_close(struct backend *backend) {
    machines_listen(backend->env->machines, NULL, backend);
    pthread_mutex_lock(&backend->lock);
    while (backend->tasks)
        pthread_cond_wait(&backend->changed, &backend->lock);
    pthread_mutex_unlock(&backend->lock);
    fleet_free(backend->fleet);
    trash_free(backend->trash);
    close(backend->boxes_fd);
    close(backend->owed_fd);
    close(backend->layers_fd);
    pthread_cond_destroy(&backend->changed);
    pthread_mutex_destroy(&backend->lock);
    pthread_mutex_destroy(&backend->layers_lock);
    free(backend);
}

/* ---- boxes ---- */

static struct usage_slot *remote_usage_slot(struct backend *backend, const char *id) {
    return &backend->usages[strtoull(id, NULL, 16) % USAGE_SLOTS];
}

/* The box has started or ended: what is known of an earlier one under its id is not its usage. */
static void remote_usage_forget_locked(struct backend *backend, const char *id) {
    struct usage_slot *slot = remote_usage_slot(backend, id);
    if (strcmp(slot->id, id) == 0)
        *slot = (struct usage_slot){.turn = slot->turn + 1};
}

static int remote_reach(struct backend *backend, const struct spec *spec, struct err *err) {
    struct machine_session *session;
    if (!spec->machine)
        return err_set(err, ERR_INVALID, "backend remote needs a machine: name one that has joined");
    int r = machine_session_get(backend->env->machines, remote_user(backend, spec), spec->machine, &session, err);
    if (r == 0)
        machine_session_put(session);
    return r;
}

static int remote_place(struct backend *backend, const struct spec *spec, struct arena *arena, const char **ret_machine,
                        struct err *err) {
    return fleet_place(backend->fleet, spec, NULL, arena, ret_machine, err);
}

/* The one that has been online for longest: joining another one does not change where new boxes are. */
static double remote_active_score(void *, const struct machine_facts *facts) {
    return facts->online ? 1e15 - (double)facts->since_ms : -1;
}

static int remote_active(struct backend *backend, const char *user, struct arena *arena, const char **ret_machine,
                         struct err *err) {
    if (machines_pick(backend->env->machines, user, remote_active_score, NULL, arena, ret_machine))
        return 0;
    return err_set(err, ERR_BUSY,
                   "user '%s' has no machine that is online, and boxes of this user are on machines only; start `cubby "
                   "join` there",
                   user);
}

static int remote_check(const struct backend *backend, const struct spec *spec, struct err *err) {
    if (backend->fleet)
        return spec->mount_count ? err_set(err, ERR_UNSUPPORTED, "a box on a worker has no mounts of this server") : 0;
    if (spec->mount_count)
        return err_set(err, ERR_UNSUPPORTED,
                       "a box on a machine has no mounts of this server; `cubby join --allow DIR` opens directories of "
                       "the machine");
    if (strcmp(spec->template_name, "host") != 0)
        return err_set(err, ERR_UNSUPPORTED, "template '%s': a box on a machine is that machine", spec->template_name);
    return 0;
}

static int remote_start(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                        struct err *err) {
    struct machine_session *session = NULL;
    struct remote_note note = {0};
    struct err ignored;
    TRY(remote_check(backend, spec, err)
        ?: remote_reach(backend, spec, err)
        ?: remote_owed_settle(backend, spec->id, err)
        ?: (backend->fleet ? worker_layers(backend, spec->layers, spec->machine, err) : 0)
        ?: machine_session_get(backend->env->machines, remote_user(backend, spec), spec->machine, &session, err));
    snprintf(note.user, sizeof note.user, "%s", remote_user(backend, spec));
    snprintf(note.machine, sizeof note.machine, "%s", spec->machine);
    bool fresh = mkdirat(backend->boxes_fd, spec->id, BACKEND_UNFINISHED_MODE) == 0;
    autofd box = openat(backend->boxes_fd, spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = box < 0 ? err_errno(err, errno, "the box's directory")
                    : remote_note_write(box, backend->mark, &note, false, err);
    if (fresh && backend->fleet)
        fleet_count(backend->fleet, note.machine, 1);
    if (r == 0)
        unlinkat(box, "paused", 0);
    if (r == 0)
        r = session->ops->start(session->connection, spec, true, ret_wire, err);
    machine_session_put(session);
    pthread_mutex_lock(&backend->lock);
    remote_usage_forget_locked(backend, spec->id);
    pthread_mutex_unlock(&backend->lock);
    if (r == 0) {
        *ret_pidfd = -1;
        wire_set_patience(*ret_wire, machines_grace_ms(backend->env->machines));
    } else if (fresh) {
        trash_put(backend->trash, backend->boxes_fd, spec->id, &ignored);
        if (backend->fleet)
            fleet_count(backend->fleet, note.machine, -1);
    }
    return r;
}

/* A machine that does not answer may have the box still: that is not known, and nothing is to be ended for it. */
static int remote_unsure(struct backend *backend, const struct spec *spec, int failed, struct err *err) {
    struct err now;
    if (failed == -ERR_NOT_FOUND)
        return failed;
    if (failed == -ERR_TIMEOUT)
        return err_set(err, ERR_BUSY, "machine '%s' does not answer; try again", spec->machine);
    if (remote_reach(backend, spec, &now) < 0)
        *err = now;
    return -err->code;
}

static int remote_discover(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd,
                           struct err *err) {
    struct machine_session *session;
    struct remote_note note;
    if (!remote_box_note(backend, id, &note))
        return err_set(err, ERR_NOT_FOUND, "box %s is not on a machine", id);
    struct spec spec = {.user = note.user, .machine = note.machine};
    text_id_copy(spec.id, id);
    int r = remote_owed_settle(backend, id, err)
                ?: machine_session_get(backend->env->machines, note.user, note.machine, &session, err);
    if (r < 0)
        return remote_unsure(backend, &spec, r, err);
    r = session->ops->start(session->connection, &spec, false, ret_wire, err);
    machine_session_put(session);
    if (r < 0)
        return remote_unsure(backend, &spec, r, err);
    *ret_pidfd = -1;
    wire_set_patience(*ret_wire, machines_grace_ms(backend->env->machines));
    return 0;
}

static int remote_stop(struct backend *backend, const char *id, bool keep_files, struct err *err) {
    struct remote_note note = {0}, before;
    int r = 0;
    if (remote_box_note(backend, id, &note)) {
        note.keep_files = keep_files && !(remote_note_read(backend->owed_fd, id, &before) && !before.keep_files);
        pthread_mutex_lock(&backend->lock);
        while (remote_claimed_locked(backend, id))
            pthread_cond_wait(&backend->changed, &backend->lock);
        r = remote_note_write(backend->owed_fd, id, &note, true, err);
        if (r == 0)
            remote_task_start_locked(backend, id, remote_task_pay);
        pthread_mutex_unlock(&backend->lock);
    }
    unlinkat(backend->boxes_fd, text_make(40, "%.16s/paused", id), 0);
    if (r < 0 || keep_files)
        return r;
    if (backend->fleet && *note.machine)
        fleet_count(backend->fleet, note.machine, -1);
    return trash_put(backend->trash, backend->boxes_fd, id, err);
}

static int remote_list(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err) {
    return backend_list_boxes(backend->boxes_fd, backend->mark, each, user, err);
}

/* Notes about machines that never came back. */
static void remote_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    autodir *dir = fd_opendir(backend->owed_fd, ".", 0);
    struct stat status;
    time_t oldest = (time_t)(clock_wall_ms() / 1000) - OWED_DAYS * 86400;
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (fstatat(backend->owed_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
            status.st_mtime < oldest && unlinkat(backend->owed_fd, entry->d_name, 0) == 0)
            each(user, text_make(80, "a pending stop of box %.16s on its machine", entry->d_name));
}

/* ---- usage, pause ---- */

static void remote_usage_ask(struct backend *backend, const char *id) {
    struct remote_note note;
    struct machine_session *session = NULL;
    struct usage usage = {0};
    struct err ignored;
    pthread_mutex_lock(&backend->lock);
    uint32_t turn = remote_usage_slot(backend, id)->turn;
    pthread_mutex_unlock(&backend->lock);
    bool answered = remote_box_note(backend, id, &note) &&
                    machine_session_get(backend->env->machines, note.user, note.machine, &session, &ignored) == 0 &&
                    (!session->ops->usage || session->ops->usage(session->connection, id, &usage, &ignored) == 0);
    machine_session_put(session);
    autolock(&backend->lock);
    struct usage_slot *slot = remote_usage_slot(backend, id);
    if (strcmp(slot->id, id) == 0 && slot->turn == turn) { /* else another box has it now */
        slot->usage = answered ? usage : (struct usage){0};
        slot->at_ms = answered ? clock_ms() : 0;
        slot->asked = false;
        slot->slow = slot->slow && !answered;
    }
    pthread_cond_broadcast(&backend->changed);
}

/* Waits a moment for the answer, or not at all where it was late the last time: listing many boxes must not wait for a
 * silent machine. */
static int remote_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *) {
    autolock(&backend->lock);
    struct usage_slot *slot = remote_usage_slot(backend, id);
    if (strcmp(slot->id, id) != 0) {
        *slot = (struct usage_slot){.turn = slot->turn + 1};
        snprintf(slot->id, sizeof slot->id, "%s", id);
    }
    if (!slot->asked && (!slot->at_ms || clock_ms() >= slot->at_ms + USAGE_AGE_MS))
        slot->asked = remote_task_start_locked(backend, id, remote_usage_ask);
    uint64_t end_ms = clock_ms() + USAGE_WAIT_MS;
    bool waits = !slot->slow;
    while (waits && slot->asked && strcmp(slot->id, id) == 0)
        if (!cond_wait_until(&backend->changed, &backend->lock, end_ms))
            break;
    bool mine = strcmp(slot->id, id) == 0;
    if (mine && waits)
        slot->slow = slot->asked;
    *ret_usage = mine ? slot->usage : (struct usage){0};
    return 0;
}

/* The note is written before the box is paused, and removed once it is surely running. */
static int remote_pause(struct backend *backend, const char *id, bool pause, struct err *err) {
    struct remote_note note;
    struct machine_session *session;
    if (!remote_box_note(backend, id, &note))
        return err_set(err, ERR_NOT_FOUND, "box %s is not on a machine", id);
    int r = machine_session_get(backend->env->machines, note.user, note.machine, &session, err);
    if (r < 0)
        return r;
    const char *path = text_make(40, "%.16s/paused", id);
    autofd mark = pause ? openat(backend->boxes_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (pause && mark < 0)
        r = err_errno(err, errno, "noting that box %s is paused", id);
    else if (!session->ops->pause)
        r = err_set(err, ERR_UNSUPPORTED, "machine '%s' cannot pause a box", note.machine);
    else
        r = session->ops->pause(session->connection, id, pause, err);
    machine_session_put(session);
    if (!pause && r == -ERR_NOT_FOUND) /* its machine was started again: nothing is paused there */
        r = 0;
    bool unsure = r == -ERR_TIMEOUT || r == -ERR_GONE || r == -ERR_BUSY;
    if (pause ? r < 0 && !unsure : r == 0)
        unlinkat(backend->boxes_fd, path, 0);
    return r;
}

static bool remote_paused(struct backend *backend, const char *id) {
    return faccessat(backend->boxes_fd, text_make(40, "%.16s/paused", id), F_OK, 0) == 0;
}

static int remote_gate(struct backend *backend, const char *user, const char *machine, struct err *err) {
    struct machine_session *session;
    TRY(machine_session_get(backend->env->machines, backend->fleet ? MACHINE_WORKERS : user, machine, &session, err));
    int r = session->ops->gate ? session->ops->gate(session->connection, err)
                               : err_set(err, ERR_UNSUPPORTED,
                                         "machine '%s' enforces no network policy: that takes `cubby join`", machine);
    machine_session_put(session);
    return r;
}

static bool remote_show(struct backend *backend, const struct spec *spec, struct arena *arena,
                        struct machine_facts *ret_facts) {
    struct err ignored;
    return machine_facts(backend->env->machines, remote_user(backend, spec), spec->machine ? spec->machine : "", arena,
                         ret_facts, &ignored) == 0;
}

/* The machine itself ended, as far as somebody has noted why. */
static bool remote_why(struct backend *backend, const char *id, char *text, size_t size) {
    struct remote_note note;
    char why[200];
    if (!remote_box_note(backend, id, &note) ||
        !machine_noted(backend->env->machines, note.user, note.machine, why, sizeof why))
        return false;
    snprintf(text, size, "worker %s: %s", note.machine, why);
    return true;
}

static void remote_info_fleet(const struct backend_env *, struct backend *backend, struct json *json) {
    static const char *const can[] = {"boxes of all users on workers that joined",
                                      "limits, pause, snapshots, templates of workers",
                                      "calls that survive a lost connection", "adoption after a restart", NULL};
    json_put_bool(json, "available", backend != NULL);
    json_put_texts(json, "can", backend ? can : NULL);
    json_put_open(json, "missing", '[');
    json_close(json, ']');
}

static void remote_info(const struct backend_env *, struct backend *backend, struct json *json) {
    static const char *const can[] = {"the user's own directory", "limits and pause where the machine has them",
                                      "calls that survive a lost connection", "adoption after a restart", NULL};
    json_put_bool(json, "available", backend != NULL);
    json_put_texts(json, "can", backend ? can : NULL);
    json_put_open(json, "missing", '[');
    json_open(json, '{');
    json_put_str(json, "what", "snapshots, mounts, templates");
    json_put_str(json, "fix", "backend jail");
    json_close(json, '}');
    json_close(json, ']');
}

const struct backend_ops backend_remote = {
    .name = "remote",
    .no_limits = true,
    .open = remote_open,
    .close = remote_close,
    .active = remote_active,
    .start = remote_start,
    .discover = remote_discover,
    .reach = remote_reach,
    .show = remote_show,
    .stop = remote_stop,
    .list = remote_list,
    .clean = remote_clean,
    .usage = remote_usage,
    .pause = remote_pause,
    .paused = remote_paused,
    .gate = remote_gate,
    .info = remote_info,
};

const struct backend_ops backend_fleet = {
    .name = "fleet",
    .far_layers = true,
    .open = remote_open_fleet,
    .close = remote_close,
    .place = remote_place,
    .start = remote_start,
    .discover = remote_discover,
    .reach = remote_reach,
    .show = remote_show,
    .stop = remote_stop,
    .list = remote_list,
    .clean = remote_clean,
    .usage = remote_usage,
    .pause = remote_pause,
    .paused = remote_paused,
    .gate = remote_gate,
    .why = remote_why,
    .files = worker_files,
    .keep = worker_keep,
    .measure = worker_measure,
    .fresh = worker_fresh,
    .squash = worker_squash,
    .drop_layer = worker_drop_layer,
    .move = worker_move,
    .settle = worker_settle,
    .leaving = worker_leaving,
    .info = remote_info_fleet,
};
