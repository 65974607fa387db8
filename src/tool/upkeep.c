/* The thread that forgets deleted boxes. Started by the daemon; the provider's events report deletions. Invariant:
 * reporting never blocks, because events come from within the provider. Deletions without an event (another daemon died
 * before it reported one) are found by checking all boxes, at start and once an hour. */

#include "base/base.h"
#include "tool/upkeep.h"
#include "base/log.h"
#include "base/sync.h"
#include "tool/offload/offload_store.h"
#include "tool/seen.h"
#include "tool/memo.h"

enum { UPKEEP_TURN_S = 3600, BOX_BYTES = 17 };

/* Deleted boxes, and when: only older notes are forgotten, because an id may be reused. */
struct boxes {
    struct box_gone {
        char id[BOX_BYTES];
        uint64_t until_ms;
    } * items;
    size_t count, cap;
};

struct upkeep {
    struct upkeep_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t wake;
    struct boxes gone;
    uint64_t days;
    bool sweep, ending;
};

static void upkeep_boxes_add(void *user, const char *box) {
    struct boxes *boxes = user;
    if (!box || strlen(box) >= BOX_BYTES)
        return;
    struct box_gone *gone = &vec_add(boxes->items, boxes->count, boxes->cap);
    memcpy(gone->id, box, strlen(box) + 1);
    gone->until_ms = clock_wall_ms();
}

static void upkeep_forget_box(const struct upkeep *upkeep, const struct box_gone *box) {
    struct tool_store *store = upkeep->options.store;
    struct err err;
    seen_forget(store, box->id, box->until_ms);
    if (memo_forget(store, box->id, box->until_ms, &err) < 0 || offload_forget(store, box->id, box->until_ms, &err) < 0)
        log_warn("cannot forget box %s in tools.db yet: %s", box->id, err.text);
}

static void *upkeep_main(void *argument) {
    struct upkeep *upkeep = argument;
    pthread_mutex_lock(&upkeep->lock);
    for (bool ending = false; !ending;) {
        uint64_t until_ms = clock_ms() + UPKEEP_TURN_S * 1000ull;
        while (!upkeep->sweep && !upkeep->gone.count && !upkeep->ending)
            upkeep->sweep = !cond_wait_until(&upkeep->wake, &upkeep->lock, until_ms);
        struct boxes gone = upkeep->gone;
        bool sweep = upkeep->sweep && !upkeep->ending;
        uint64_t days = upkeep->days;
        upkeep->gone = (struct boxes){0};
        upkeep->sweep = false;
        ending = upkeep->ending;
        pthread_mutex_unlock(&upkeep->lock);
        for (size_t i = 0; i < gone.count; i++)
            upkeep_forget_box(upkeep, &gone.items[i]);
        free(gone.items);
        if (sweep) {
            /* Forgets boxes deleted without an event, and results that are too old or incomplete. */
            struct boxes known = {0};
            struct err err;
            uint64_t now_ms = clock_wall_ms(), age_ms = days * 86400000;
            if (tool_store_boxes(upkeep->options.store, upkeep_boxes_add, &known, &err) < 0)
                log_warn("%s", err.text);
            for (size_t i = 0; i < known.count; i++)
                if (!upkeep->options.alive(upkeep->options.user, known.items[i].id))
                    upkeep_forget_box(upkeep, &known.items[i]);
            free(known.items);
            if (offload_sweep(upkeep->options.store, days && age_ms < now_ms ? now_ms - age_ms : 0, &err) < 0)
                log_warn("cannot remove old kept results: %s", err.text);
        }
        pthread_mutex_lock(&upkeep->lock);
    }
    pthread_mutex_unlock(&upkeep->lock);
    return NULL;
}

int upkeep_start(const struct upkeep_options *options, struct upkeep **ret_upkeep, struct err *err) {
    struct upkeep *upkeep = xcalloc(1, sizeof *upkeep);
    upkeep->options = *options;
    upkeep->days = options->days;
    upkeep->sweep = true;
    pthread_mutex_init(&upkeep->lock, NULL);
    cond_init(&upkeep->wake);
    int number = pthread_create(&upkeep->thread, NULL, upkeep_main, upkeep);
    if (number) {
        upkeep_free(upkeep);
        return err_errno(err, number, "cannot start a thread");
    }
    *ret_upkeep = upkeep;
    return 0;
}

void upkeep_stop(struct upkeep *upkeep) {
    if (!upkeep)
        return;
    pthread_mutex_lock(&upkeep->lock);
    upkeep->ending = true;
    pthread_cond_signal(&upkeep->wake);
    pthread_mutex_unlock(&upkeep->lock);
    pthread_join(upkeep->thread, NULL);
}

void upkeep_free(struct upkeep *upkeep) {
    if (!upkeep)
        return;
    pthread_cond_destroy(&upkeep->wake);
    pthread_mutex_destroy(&upkeep->lock);
    free(upkeep->gone.items);
    free(upkeep);
}

void upkeep_configure(struct upkeep *upkeep, uint64_t days) {
    if (!upkeep)
        return;
    autolock(&upkeep->lock);
    upkeep->sweep |= upkeep->days != days;
    upkeep->days = days;
    pthread_cond_signal(&upkeep->wake);
}

void upkeep_forget(struct upkeep *upkeep, const char *box) {
    if (!upkeep)
        return;
    autolock(&upkeep->lock);
    upkeep_boxes_add(&upkeep->gone, box);
    pthread_cond_signal(&upkeep->wake);
}
