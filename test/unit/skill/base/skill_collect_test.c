/* Layers of skills that boxes have: none goes while a box of any daemon may mount it, whoever collects; then all do. */
#include "fake_backend.h"

#include "skill/base/base.h"
#include "skill/base/view.h"

static struct err err;
static struct skills *skills;

static int contribute(void *user, bool mounts, struct spec *spec, struct arena *arena, struct err *ret) {
    (void)user, (void)mounts;
    return spec->agent ? base_layers(skills, spec->agent, arena, &spec->attached.layers, &spec->attached.count, ret)
                       : 0;
}

static struct policy policy = {.hooks.contribute = contribute};
static const struct backend_env env = {.state_dir = state_dir, .runner_path = "/none"};

static void put(const char *skill) {
    struct stage stage;
    char path[64];
    int fd = -1;
    snprintf(path, sizeof path, "%s/SKILL.md", skill);
    must(stage_open(skills, &stage, &err) == 0 && stage_file(&stage, path, 0644, &fd, &err) == 0, err.text);
    close(fd);
    must(base_put(skills, "app", &stage, &err) == 0, err.text);
}

/* So that none of the layers before is in the stack any more. */
static void compact(void) {
    struct base_stack stack;
    int rounds = 0;
    do {
        put("again");
        must(base_stack_read(skills, "app", &stack, &err) == 0 && rounds++ < 2 * BASE_LAYERS, "a stack is made one");
    } while (stack.count != 1);
}

static bool layer_there(const char *layer) {
    char path[128];
    snprintf(path, sizeof path, "%s/skills/layers/%s", state_dir, layer);
    return access(path, F_OK) == 0;
}

static unsigned layers(void) {
    char path[128];
    unsigned found = 0;
    snprintf(path, sizeof path, "%s/skills/layers", state_dir);
    DIR *dir = opendir(path);
    for (struct dirent *entry; (entry = readdir(dir));)
        found += entry->d_name[0] != '.';
    closedir(dir);
    return found;
}

int main(void) {
    struct provider *provider = NULL;
    struct box *box = NULL;
    bool created = false;
    char id[17], old[2][17];
    must(mkdtemp(state_dir), "a directory");
    must(skills_open(state_dir, &skill_defaults, &skills, &err) == 0, err.text);
    must(provider_new(&env, &policy, "fake", &provider, &err) == 0, err.text);
    put("first");
    put("second");
    must(provider_acquire(provider, &(struct box_request){.user = "ann", .agent = "app"}, &box, &created, &err) == 0,
         err.text);
    memcpy(id, box->id, sizeof id);
    ok(box->spec.attached.count == 2, "a box has the layers of its start");
    for (int i = 0; i < 2; i++)
        snprintf(old[i], sizeof old[i], "%s", box->spec.attached.layers[i]);
    provider_put(provider, box);
    compact();
    ok(layers() > 3, "the stack is another now, and old layers lie about");

    atomic_store(&skills->provider, provider); /* without the thread: this test collects */
    ok_all("all go but those of the stack and of the box", base_collect(skills, 0, &err) == 0, layers() == 3,
           layer_there(old[0]), layer_there(old[1]));
    provider_free(provider, false);
    must(provider_new(&env, &policy, "fake", &provider, &err) == 0, err.text);
    atomic_store(&skills->provider, provider);
    ok_all("a daemon that never saw the box made knows them by its record", base_collect(skills, 0, &err) == 0,
           layer_there(old[0]), layer_there(old[1]));

    char record[128], hidden[128];
    snprintf(record, sizeof record, "%s/boxes/%s/box.json", state_dir, id);
    snprintf(hidden, sizeof hidden, "%s/hidden", state_dir);
    must(rename(record, hidden) == 0, "the record is moved away");
    int fd = open(record, O_WRONLY | O_CREAT, 0600);
    must(write(fd, "{", 1) == 1, "and a damaged one lies there");
    close(fd);
    put("again");
    compact();
    base_collect(skills, 0, &err);
    ok(layer_there(old[0]) && layer_there(old[1]), "a record that cannot be read keeps every layer");
    must(rename(hidden, record) == 0, "the record is back");

    must(provider_destroy(provider, NULL, id, &err) == 0, err.text);
    ok(base_collect(skills, 0, &err) == 0 && layers() == 1, "when the box is deleted, its layers go");
    skills_provider(skills, provider); /* with the thread, which has ended before the provider does */
    skills_provider(skills, NULL);
    provider_free(provider, true);
    skills_close(skills);
    removal_tree(AT_FDCWD, state_dir);
    return tap_end();
}
