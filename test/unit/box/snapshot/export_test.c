/* The verb export over a backend made for the test: what a box lies on before, meanwhile and after, whatever fails when. */
#define FAKE_MORE                                                                                                      \
    .images = true, .whole_layers = true, .export = fake_export, .keep = fake_keep, .drop_layer = fake_drop
#include "box/snapshot/export.h"

#include <semaphore.h>

#include "box/provider/record.h"
#include "box/provider/provider_private.h"

static int fake_export(struct backend *backend, const struct spec *spec, const char *layer,
                       struct exported *ret_exported, struct err *err);
static int fake_drop(struct backend *backend, const char *layer, struct err *err);
static int fake_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move,
                     struct kept *ret_kept, struct err *err);
#include "fake_backend.h"

static struct {
    bool unchanged, fail, fail_start_after, wait;
    sem_t entered, leave;
} plan;

static struct provider *provider;
static struct err err;
static struct policy policy;
static char heard[200];
static const struct backend_env env = {.state_dir = state_dir, .runner_path = "/none"};

static void layer_path(char *path, size_t size, const char *layer, const char *rest) {
    snprintf(path, size, "%s/layers/%s%s", state_dir, layer, rest);
}

static int fake_export(struct backend *backend, const struct spec *spec, const char *layer,
                       struct exported *ret_exported, struct err *error) {
    char path[160];
    if (plan.wait) {
        sem_post(&plan.entered);
        sem_wait(&plan.leave);
    }
    if (plan.fail)
        return err_set(error, ERR_IO, "the disk is full");
    *ret_exported = (struct exported){.changed = !plan.unchanged, .bytes = 5};
    if (plan.unchanged)
        return 0;
    snprintf(ret_exported->image, sizeof ret_exported->image, "image-%s", layer);
    layer_path(path, sizeof path, layer, "/fs");
    must(mkdir(path, 0700) == 0, "the caller has made the layer");
    fake.fail_start = plan.fail_start_after;
    return fake_stop(backend, spec->id, true, error);
}

/* Not asked: a backend that has layers has this as well. */
static int fake_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move,
                     struct kept *ret_kept, struct err *error) {
    (void)backend, (void)spec, (void)layer, (void)move, (void)ret_kept;
    return err_set(error, ERR_UNSUPPORTED, "the test keeps nothing");
}

static int fake_drop(struct backend *backend, const char *layer, struct err *error) {
    (void)backend, (void)error;
    char path[160];
    layer_path(path, sizeof path, layer, "");
    removal_tree(AT_FDCWD, path);
    return 0;
}

static void hear(void *user, const struct box_event *event) {
    (void)user;
    if (strcmp(event->verb, "box_exported") == 0)
        snprintf(heard, sizeof heard, "%s", event->detail);
}

/* ---- helpers ---- */

static const char *acquire(const char *thread) {
    static char id[17];
    struct box_request request = {
        .user = "ann", .thread = thread, .thread_len = strlen(thread), .template_name = "debian:1"};
    struct box *box = NULL;
    bool created;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, err.text);
    memcpy(id, box->id, sizeof id);
    provider_put(provider, box);
    return id;
}

/* The only layer there is; "": none; "many". */
static const char *only_layer(void) {
    static char name[17];
    char path[160];
    unsigned layers = 0;
    layer_path(path, sizeof path, "", "");
    DIR *dir = opendir(path);
    must(dir, "layers");
    name[0] = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            snprintf(name, sizeof name, "%.16s", entry->d_name);
            layers++;
        }
    closedir(dir);
    return layers > 1 ? "many" : name;
}

/* What the record says that the box lies on; "": the template. */
static const char *lies_on(const char *id) {
    static char name[17];
    struct record record;
    autoarena arena = ARENA_EMPTY;
    must(record_read(provider->boxes_fd, id, &arena, &record, &err) == 0, err.text);
    must(record.spec.layer_count <= 1, "one layer alone");
    snprintf(name, sizeof name, "%s", record.spec.layer_count ? record.spec.layers[0] : "");
    return name;
}

static enum box_state state_of(const char *id) {
    struct box *box;
    must(provider_look(provider, NULL, id, &box, &err) == 0, err.text);
    enum box_state state = box->state;
    provider_look_end(provider, box);
    return state;
}

static int used(const char *id) {
    struct box *box = NULL;
    int r = provider_get(provider, "ann", id, &box, &err);
    provider_put(provider, box);
    return r;
}

/* ---- cases ---- */

static void test_unchanged_and_failed(const char *id) {
    struct export_result result;
    unsigned starts = fake.starts;
    plan.unchanged = true;
    int r = export_run(provider, "ann", id, &result, &err);
    ok_all("nothing changed: nothing is started", r == 0, !result.exported.changed, fake.starts == starts);
    ok_all("and no layer is left", !*only_layer(), !*lies_on(id), state_of(id) == BOX_READY);
    plan.unchanged = false;
    plan.fail = true;
    r = export_run(provider, "ann", id, &result, &err);
    ok(r == -ERR_IO && strstr(err.text, "disk is full"), "a failure is told");
    ok_all("and the box runs as it did", !*only_layer(), !*lies_on(id), state_of(id) == BOX_READY,
           fake.starts == starts, used(id) == 0);
    plan.fail = false;
    ok(export_run(provider, "bob", id, &result, &err) == -ERR_NOT_FOUND, "somebody else's box is none");
    must(provider_pause(provider, "ann", id, &err) == 0, err.text);
    ok_all("a paused box stays so", export_run(provider, "ann", id, &result, &err) == -ERR_PAUSED,
           state_of(id) == BOX_PAUSED, !*only_layer());
    must(provider_resume(provider, "ann", id, &err) == 0, err.text);
}

static void test_changed(const char *id) {
    struct export_result result;
    char first[17];
    unsigned starts = fake.starts;
    int r = export_run(provider, "ann", id, &result, &err);
    ok_all("exported", r == 0, result.exported.changed, result.exported.bytes == 5);
    ok(*lies_on(id) && strcmp(lies_on(id), only_layer()) == 0, "its record names the layer");
    ok_all("and it runs from it", fake.starts == starts + 1, state_of(id) == BOX_READY, used(id) == 0);
    ok(strcmp(heard, result.exported.image) == 0 && *heard, "which an event tells");
    memcpy(first, only_layer(), sizeof first);
    r = export_run(provider, "ann", id, &result, &err);
    ok_all("another time: the layer before goes", r == 0, strcmp(lies_on(id), only_layer()) == 0,
           strcmp(only_layer(), first) != 0);
    must(used(id) == 0, err.text);
    struct box *box;
    must(provider_get(provider, "ann", id, &box, &err) == 0, err.text);
    provider_release(provider, box, &err);
    provider_put(provider, box);
    r = export_run(provider, "ann", id, &result, &err);
    ok(r == 0 && state_of(id) == BOX_WARM, "one that was on the shelf is there again");
}

static void test_does_not_run(const char *id) {
    struct export_result result;
    char before[17];
    memcpy(before, only_layer(), sizeof before);
    plan.fail_start_after = true;
    int r = export_run(provider, "ann", id, &result, &err);
    ok_all("a new image from which it does not run is told", r == -ERR_UNSUPPORTED,
           strstr(err.text, "as it was before"), strstr(err.text, "the test says no"));
    ok(strcmp(lies_on(id), before) == 0 && strcmp(only_layer(), before) == 0, "and the box lies on what it lay on");
    plan.fail_start_after = fake.fail_start = false;
    ok(used(id) == 0 && state_of(id) == BOX_READY, "from which it runs");
}

static void *export_thread(void *argument) {
    struct export_result result;
    struct err own;
    return (void *)(intptr_t)export_run(provider, "ann", argument, &result, &own);
}

static void test_meanwhile(const char *id) {
    pthread_t thread;
    void *ended;
    struct export_result result;
    char text[17];
    memcpy(text, id, sizeof text);
    plan.wait = true;
    pthread_create(&thread, NULL, export_thread, text);
    sem_wait(&plan.entered);
    ok(state_of(id) == BOX_EXPORTING, "it is exporting meanwhile");
    ok(used(id) == -ERR_BUSY && strstr(err.text, "being exported"), "who uses it is told so at once");
    ok(provider_destroy(provider, "ann", id, &err) == -ERR_BUSY, "who deletes it, too");
    ok(provider_pause(provider, "ann", id, &err) == -ERR_BUSY, "and who pauses it");
    plan.wait = false;
    ok(export_run(provider, "ann", id, &result, &err) == -ERR_BUSY, "and who exports it");
    ok(provider_destroy(provider, "bob", id, &err) == -ERR_NOT_FOUND, "somebody else sees nothing of it");
    sem_post(&plan.leave);
    pthread_join(thread, &ended);
    ok_all("then all is as always", !ended, used(id) == 0, state_of(id) == BOX_READY);
}

static void test_restart(const char *id) {
    char before[17], path[160];
    memcpy(before, lies_on(id), sizeof before);
    layer_path(path, sizeof path, "0123456789abcdef", "");
    mkdir(path, 0700);
    layer_path(path, sizeof path, "0123456789abcdef", "/backend");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0 && fd_write_all(fd, "fake", 4) == 0, path);
    close(fd);
    provider_free(provider, false);
    must(provider_new(&env, &policy, "fake", &provider, &err) == 0, err.text);
    ok(strcmp(only_layer(), before) == 0 && used(id) == 0,
       "a layer that a killed daemon left is swept by the next; the box's own is not");
    ok(provider_destroy(provider, "ann", id, &err) == 0 && !*only_layer(), "with the box its layer goes");
}

int main(void) {
    must(mkdtemp(state_dir) != NULL, "mkdtemp");
    sem_init(&plan.entered, 0, 0);
    sem_init(&plan.leave, 0, 0);
    policy.event = hear;
    must(provider_new(&env, &policy, "fake", &provider, &err) == 0, err.text);
    char id[17];
    memcpy(id, acquire("t"), sizeof id);
    test_unchanged_and_failed(id);
    test_changed(id);
    test_does_not_run(id);
    test_meanwhile(id);
    test_restart(id);
    provider_free(provider, true);
    removal_tree(AT_FDCWD, state_dir);
    return tap_end();
}
