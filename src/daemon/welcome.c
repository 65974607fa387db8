/* A queue of machines that joined, and a few threads that serve it: the box of the machine is made, so that it is
 * visible, and the skills of all boxes are copied into it. Called by the table of machines (online) and by
 * skill/registry/sync (later). Invariant: copies go to the machine that the entry names and no other; a slow machine
 * has one thread, not all. */
#include "daemon/welcome.h"

#include "backend/backend.h"
#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "front/front.h"
#include "skill/registry/sync.h"

enum { WELCOME_THREADS = 4 };

struct guest {
    struct guest *next;
    char user[LIMIT_USER_BYTES + 1], machine[LIMIT_RUNNER_BYTES + 1];
    bool busy;  /* a thread serves it */
    bool again; /* it must be served once more */
};

struct welcome {
    struct front *front;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t ended;
    struct guest *first;
    unsigned threads;
    bool stopping;
};

/* Makes the box of a joined machine, and then puts its skills into it. */
static int welcome_guest_serve(const struct front *front, const struct guest *guest, struct err *err) {
    struct sync_report report;
    struct box *box;
    bool created;
    const struct box_request request = {.user = guest->user, .machine = guest->machine};
    int r = provider_acquire(front->provider, &request, &box, &created, err);
    if (r < 0)
        return err_wrap(err, "cannot make its box");
    r = front->skills ? sync_box(front->skills, box, &report, err) : 0;
    if (r == 0 && front->skills && (report.written || report.removed))
        log_info("machine %s of %s: skills: %llu files written, %llu removed, %llu unchanged", guest->machine,
                 guest->user, (unsigned long long)report.written, (unsigned long long)report.removed,
                 (unsigned long long)report.unchanged);
    provider_put(front->provider, box);
    return r < 0 ? err_wrap(err, "cannot copy its skills") : 0;
}

static struct guest *welcome_guest_next_locked(const struct welcome *welcome) {
    struct guest *guest = welcome->first;
    while (guest && guest->busy)
        guest = guest->next;
    return guest;
}

static void *welcome_thread(void *user) {
    struct welcome *welcome = user;
    struct guest *guest;
    pthread_mutex_lock(&welcome->lock);
    while (!welcome->stopping && (guest = welcome_guest_next_locked(welcome))) {
        struct err err;
        guest->busy = true;
        pthread_mutex_unlock(&welcome->lock);
        if (welcome_guest_serve(welcome->front, guest, &err) < 0)
            log_warn("machine %s of %s: %s", guest->machine, guest->user, err.text);
        pthread_mutex_lock(&welcome->lock);
        guest->busy = false;
        if (!guest->again || welcome->stopping) {
            list_remove(welcome->first, guest);
            free(guest);
        } else {
            guest->again = false;
        }
    }
    welcome->threads--;
    pthread_cond_broadcast(&welcome->ended);
    pthread_mutex_unlock(&welcome->lock);
    return NULL;
}

void welcome_machine(void *welcome_of, const char *owner, const char *machine) {
    struct welcome *welcome = welcome_of;
    if (strcmp(owner, MACHINE_WORKERS) == 0)
        return; /* it has boxes of all users, none of its own */
    autolock(&welcome->lock);
    struct guest **at = &welcome->first;
    while (*at && (strcmp((*at)->user, owner) != 0 || strcmp((*at)->machine, machine) != 0))
        at = &(*at)->next;
    if (*at) {
        (*at)->again |= (*at)->busy;
    } else if (!welcome->stopping) {
        *at = xcalloc(1, sizeof **at);
        snprintf((*at)->user, sizeof(*at)->user, "%s", owner);
        snprintf((*at)->machine, sizeof(*at)->machine, "%s", machine);
    }
    if (welcome->stopping || welcome->threads >= WELCOME_THREADS || !welcome_guest_next_locked(welcome))
        return;
    if (thread_detached(welcome_thread, welcome, 0) == 0)
        welcome->threads++;
    else
        log_warn("cannot start a thread to serve joined machines; the next one that joins tries again");
}

struct welcome *welcome_new(struct front *front) {
    struct welcome *welcome = xcalloc(1, sizeof *welcome);
    welcome->front = front;
    pthread_mutex_init(&welcome->lock, NULL);
    pthread_cond_init(&welcome->ended, NULL);
    return welcome;
}

void welcome_stop(struct welcome *welcome) {
    autolock(&welcome->lock);
    welcome->stopping = true;
    while (welcome->threads)
        pthread_cond_wait(&welcome->ended, &welcome->lock);
}

void welcome_free(struct welcome *welcome) {
    if (!welcome)
        return;
    for (struct guest *guest = welcome->first, *next; guest; guest = next) {
        next = guest->next;
        free(guest);
    }
    pthread_cond_destroy(&welcome->ended);
    pthread_mutex_destroy(&welcome->lock);
    free(welcome);
}
