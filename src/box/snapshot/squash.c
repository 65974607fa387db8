/* The squasher: one thread, one box at a time. Called by snapshot.c. A box's layers L are merged into one new layer S
 * that shows the same (runner/ops/squash.c), and when the box does not run, S takes their place in its record.
 * Snapshots that name the old layers keep them. Invariant: layers that a running box has mounted are let go of only
 * when it has ended; S is named by a record only when it is whole.
 *
 * Both L and S are held by the owner "BOX:~squash", which is not the name of a snapshot: a daemon that is killed
 * leaves nothing that the sweep would not find.
 *
 * Rules: 1. everything in struct squash is under its lock, but `stop`. 2. The thread works on `job` without it;
 * others touch that one only when it is `done`. 3. squash's lock is never held while a box is marked or waited for. */

#include <stdatomic.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "box/snapshot/layer.h"

#define SQUASH_OWNER "~squash"
enum { QUEUE_MAX = 64, DONE_MAX = 256 };

/* Layers that became one. */
struct job {
    struct job *next;
    char id[17], layer[17]; /* whose; S */
    size_t count;
    char layers[LIMIT_LAYERS][17]; /* L */
    const struct backend_ops *ops;
    struct backend *backend;
};

struct squash {
    struct provider *provider;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    char queue[QUEUE_MAX][17];
    size_t queued;
    struct job *done; /* waiting until their box does not run */
    size_t done_count;
    atomic_bool stop;
};

static void *squash_main(void *argument);

/* ---- asked for ---- */

static struct squash *squash_get(struct provider *provider) {
    autolock(&provider->lock);
    struct squash *squash = provider->squash;
    if (!squash && !provider->ending && !provider->env->one_shot) {
        squash = xcalloc(1, sizeof *squash);
        squash->provider = provider;
        pthread_mutex_init(&squash->lock, NULL);
        pthread_cond_init(&squash->more, NULL);
        provider->squash = squash;
        squash->thread = thread_joined(squash_main, squash, PROVIDER_STACK_BYTES);
    }
    return squash;
}

void squash_want(struct provider *provider, const char *id, size_t depth) {
    struct squash *squash = depth > SQUASH_DEPTH ? squash_get(provider) : NULL;
    if (!squash)
        return;
    autolock(&squash->lock);
    bool known = squash->queued == QUEUE_MAX || squash->done_count >= DONE_MAX; /* its next snapshot asks again */
    for (size_t i = 0; i < squash->queued; i++)
        known |= strcmp(squash->queue[i], id) == 0;
    for (struct job *job = squash->done; job; job = job->next)
        known |= strcmp(job->id, id) == 0;
    if (!known)
        text_id_copy(squash->queue[squash->queued++], id);
    pthread_cond_signal(&squash->more);
}

/* ---- done ---- */

static void squash_job_free(struct provider *provider, struct job *job) {
    char owner[LAYER_OWNER_BYTES];
    if (!job)
        return;
    layer_owner(job->id, SQUASH_OWNER, owner);
    for (size_t i = 0; i < job->count; i++)
        layer_release(provider, job->ops, job->backend, job->layers[i], owner);
    if (*job->layer)
        layer_release(provider, job->ops, job->backend, job->layer, owner);
    free(job);
}

/* The one that there is; NULL: it was never wanted. */
static struct squash *squash_there(struct provider *provider) {
    autolock(&provider->lock);
    return provider->squash;
}

static struct job *squash_job_take(struct squash *squash, const char *id) {
    if (!squash)
        return NULL;
    autolock(&squash->lock);
    struct job *job = list_find(squash->done, done, strcmp(done->id, id) == 0);
    if (job) {
        list_remove(squash->done, job);
        squash->done_count--;
    }
    return job;
}

/* The job's layers are the last ones of the record, or no longer there. */
static int squash_job_swap(struct work *work, const struct job *job, struct err *err) {
    const struct spec *spec = &work->record.spec;
    if (spec->layer_count < job->count)
        return 0;
    size_t at = spec->layer_count - job->count;
    for (size_t i = 0; i < job->count; i++)
        if (strcmp(spec->layers[at + i], job->layers[i]) != 0)
            return 0;
    TRY(layer_hold(work->provider, job->layer, job->id, err));
    const char **layers = arena_alloc(work->arena, (at + 2) * sizeof *layers);
    memcpy(layers, spec->layers, at * sizeof *layers);
    layers[at] = arena_strdup(work->arena, job->layer);
    work_layers(work, layers);
    int r = work_record(work, err);
    work->changed = true;
    for (size_t i = 0; r == 0 && i < job->count; i++)
        layer_release(work->provider, job->ops, job->backend, job->layers[i], job->id);
    return r;
}

bool squash_ready(struct provider *provider, const char *id) {
    struct squash *squash = squash_there(provider);
    if (!squash)
        return false;
    autolock(&squash->lock);
    return list_find(squash->done, job, strcmp(job->id, id) == 0);
}

void squash_swap(struct work *work) {
    struct job *job = squash_job_take(squash_there(work->provider), work->box->id);
    struct err err;
    if (job && squash_job_swap(work, job, &err) < 0)
        log_warn("box %s: %s", job->id, err.text);
    squash_job_free(work->provider, job);
}

/* ---- the thread ---- */

static int squash_begin_work(void *argument, struct work *work, struct err *err) {
    struct job *job = argument;
    const struct spec *spec = &work->record.spec;
    char owner[LAYER_OWNER_BYTES];
    layer_owner(job->id, SQUASH_OWNER, owner);
    job->ops = work->box->ops;
    job->backend = work->box->backend;
    bool alone = spec->layer_count > 1 && spec->limits.disk_mb;
    for (size_t i = 0; alone && i < spec->layer_count; i++)
        alone = layer_only_held_by(work->provider, spec->layers[i], job->id);
    if (!job->ops->squash || (spec->layer_count <= SQUASH_DEPTH && !alone) || spec->layer_count > LIMIT_LAYERS)
        return 0;
    int r = 0;
    for (; r == 0 && job->count < spec->layer_count; job->count++) {
        text_id_copy(job->layers[job->count], spec->layers[job->count]);
        r = layer_hold(work->provider, spec->layers[job->count], owner, err);
    }
    return r == 0 ? layer_new(work->provider, job->ops, owner, job->layer, err) : r;
}

/* Only where nothing runs: else its next snapshot does it. */
static int squash_end_work(void *, struct work *work, struct err *) {
    if (!work->box->wire && work->state != BOX_PAUSED)
        squash_swap(work);
    return 0;
}

static void squash_one(struct squash *squash, const char *id) {
    struct provider *provider = squash->provider;
    struct job *job = xcalloc(1, sizeof *job);
    struct err err;
    const char *layers[LIMIT_LAYERS + 1] = {0};
    text_id_copy(job->id, id);
    int r = provider_work(provider, NULL, id, squash_begin_work, job, &err);
    for (size_t i = 0, at = 0; i < job->count; i++)
        if (layer_has_files(provider, job->layers[i]))
            layers[at++] = job->layers[i];
    if (r == 0 && *job->layer)
        r = job->ops->squash(job->backend, job->layer, layers, &squash->stop, &err);
    if (r < 0 && r != -ERR_NOT_FOUND && !atomic_load(&squash->stop))
        log_warn("the layers of box %s stay as many as they are: %s", id, err.text);
    if (r < 0 || !*job->layer) {
        squash_job_free(provider, job);
        return;
    }
    pthread_mutex_lock(&squash->lock);
    list_push(squash->done, job);
    squash->done_count++;
    pthread_mutex_unlock(&squash->lock);
    if (provider_work(provider, NULL, id, squash_end_work, NULL, &err) == -ERR_NOT_FOUND) /* the box is gone */
        squash_job_free(provider, squash_job_take(squash, id));
}

static void *squash_main(void *argument) {
    struct squash *squash = argument;
    pthread_mutex_lock(&squash->lock);
    while (!atomic_load(&squash->stop)) {
        char id[17];
        if (squash->queued == 0) {
            pthread_cond_wait(&squash->more, &squash->lock);
            continue;
        }
        memcpy(id, squash->queue[0], sizeof id);
        pthread_mutex_unlock(&squash->lock);
        squash_one(squash, id);
        pthread_mutex_lock(&squash->lock);
        memmove(squash->queue[0], squash->queue[1], --squash->queued * sizeof squash->queue[0]);
    }
    pthread_mutex_unlock(&squash->lock);
    return NULL;
}

void squash_end(struct provider *provider) {
    pthread_mutex_lock(&provider->lock);
    struct squash *squash = provider->squash;
    provider->squash = NULL;
    pthread_mutex_unlock(&provider->lock);
    if (!squash)
        return;
    pthread_mutex_lock(&squash->lock);
    atomic_store(&squash->stop, true);
    pthread_cond_signal(&squash->more);
    pthread_mutex_unlock(&squash->lock);
    pthread_join(squash->thread, NULL);
    while (squash->done) /* their boxes are as they are; the next daemon begins anew */
        squash_job_free(provider, squash_job_take(squash, squash->done->id));
    pthread_mutex_destroy(&squash->lock);
    pthread_cond_destroy(&squash->more);
    free(squash);
}

void squash_forget(struct provider *provider, const char *id) {
    squash_job_free(provider, squash_job_take(squash_there(provider), id));
}
