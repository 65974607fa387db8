/* The loop of cubby-gate: one epoll, level-triggered, a heap of timers, and memory that is freed when no event can name
 * it any more (program.h, rule 1). */
#include "gate/program.h"

enum { LOOP_EVENTS = 256 };

static int loop_epoll = -1;
static uint64_t loop_ms, loop_number;
static struct timer **loop_timers; /* a binary heap from 1 on */
static size_t loop_timer_count, loop_timer_room;
static void **loop_dead;
static size_t loop_dead_count, loop_dead_room;

void loop_begin(void) {
    loop_epoll = epoll_create1(EPOLL_CLOEXEC);
    xensure(loop_epoll >= 0);
    loop_ms = clock_ms();
    vec_reserve(loop_timers, 0, loop_timer_room, 64);
}

uint64_t loop_now_ms(void) {
    return loop_ms;
}

uint64_t loop_turn(void) {
    return loop_number;
}

void loop_free(void *memory) {
    vec_add(loop_dead, loop_dead_count, loop_dead_room) = memory;
}

/* ---- descriptors ---- */

void watch_add(struct watch *watch, int fd, uint32_t events, void (*ready)(struct watch *watch, uint32_t events_now)) {
    *watch = (struct watch){.ready = ready, .fd = fd, .events = events};
    struct epoll_event event = {.events = events, .data.ptr = watch};
    epoll_ctl(loop_epoll, EPOLL_CTL_ADD, fd, &event);
}

void watch_set(struct watch *watch, uint32_t events) {
    if (watch->fd < 0 || watch->events == events)
        return;
    struct epoll_event event = {.events = watch->events = events, .data.ptr = watch};
    epoll_ctl(loop_epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

void watch_move(struct watch *watch, struct watch *from, uint32_t events,
                void (*ready)(struct watch *watch, uint32_t events_now)) {
    *watch = (struct watch){.ready = ready, .fd = from->fd, .events = events};
    *from = (struct watch){.fd = -1};
    struct epoll_event event = {.events = events, .data.ptr = watch};
    epoll_ctl(loop_epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

/* Explicitly: a copy of the descriptor elsewhere would keep the entry alive. */
void watch_end(struct watch *watch) {
    if (watch->fd >= 0)
        epoll_ctl(loop_epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->ready = NULL;
}

void watch_close(struct watch *watch) {
    watch_end(watch);
    fd_close(&watch->fd);
}

/* ---- timers ---- */

static void loop_timer_place(struct timer *timer, size_t at) {
    loop_timers[at] = timer;
    timer->place = at;
}

static void loop_timer_up(struct timer *timer, size_t at) {
    for (; at > 1 && loop_timers[at / 2]->at_ms > timer->at_ms; at /= 2)
        loop_timer_place(loop_timers[at / 2], at);
    loop_timer_place(timer, at);
}

static void loop_timer_down(struct timer *timer, size_t at) {
    for (size_t child; (child = at * 2) <= loop_timer_count; at = child) {
        child += child < loop_timer_count && loop_timers[child + 1]->at_ms < loop_timers[child]->at_ms;
        if (loop_timers[child]->at_ms >= timer->at_ms)
            break;
        loop_timer_place(loop_timers[child], at);
    }
    loop_timer_place(timer, at);
}

void timer_stop(struct timer *timer) {
    size_t at = timer->place;
    if (!at)
        return;
    struct timer *last = loop_timers[loop_timer_count--];
    timer->place = 0;
    if (last == timer)
        return;
    if (at > 1 && loop_timers[at / 2]->at_ms > last->at_ms)
        loop_timer_up(last, at);
    else
        loop_timer_down(last, at);
}

void timer_set(struct timer *timer, uint64_t at_ms, void (*due)(struct timer *timer)) {
    timer_stop(timer);
    timer->at_ms = at_ms;
    timer->due = due;
    vec_reserve(loop_timers, loop_timer_count + 1, loop_timer_room, 1);
    loop_timer_up(timer, ++loop_timer_count);
}

/* ---- turns ---- */

void loop_run(void) {
    struct epoll_event events[LOOP_EVENTS];
    for (;;) {
        int wait = -1;
        if (loop_timer_count) {
            uint64_t at = loop_timers[1]->at_ms;
            wait = at <= clock_ms() ? 0 : at - clock_ms() > 60000 ? 60000 : (int)(at - clock_ms()) + 1;
        }
        int count = epoll_wait(loop_epoll, events, LOOP_EVENTS, wait);
        loop_ms = clock_ms();
        loop_number++;
        for (int i = 0; i < count; i++) {
            struct watch *watch = events[i].data.ptr;
            if (watch->ready && watch->fd >= 0)
                watch->ready(watch, events[i].events);
        }
        while (loop_timer_count && loop_timers[1]->at_ms <= loop_ms) {
            struct timer *timer = loop_timers[1];
            timer_stop(timer);
            timer->due(timer);
        }
        report_flush();
        while (loop_dead_count)
            free(loop_dead[--loop_dead_count]);
    }
}

bool bucket_take(struct bucket *bucket, double amount, double rate_per_s, double most) {
    if (!bucket->at_ms)
        bucket->tokens = most;
    else
        bucket->tokens += (double)(loop_ms - bucket->at_ms) * rate_per_s / 1000;
    bucket->tokens = bucket->tokens > most ? most : bucket->tokens;
    bucket->at_ms = loop_ms;
    if (bucket->tokens < amount)
        return false;
    bucket->tokens -= amount;
    return true;
}
