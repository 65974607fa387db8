/* Turns on a box's skills: who shares, who has it alone, who waits for whom and how long. TAP on standard output. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "box/box.h"
#include "tap.h"

static struct box box = {.id = "0123456789abcdef"};
static struct err err;

/* One thread that does one thing, and then waits to be told to go on. */
struct helper {
    pthread_t thread;
    bool alone;
    uint64_t wait_ms;
    int result;
    atomic_bool done, go;
};

static void *helper_main(void *user) {
    struct helper *helper = user;
    struct err own;
    helper->result = helper->alone ? box_alone(&box, helper->wait_ms, &own) : box_share(&box, helper->wait_ms, &own);
    atomic_store(&helper->done, true);
    while (!atomic_load(&helper->go))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    if (helper->result == 0 && helper->alone)
        box_alone_end(&box);
    else if (helper->result == 0)
        box_share_end(&box);
    return NULL;
}

static void helper_start(struct helper *helper, bool alone, uint64_t wait_ms) {
    *helper = (struct helper){.alone = alone, .wait_ms = wait_ms};
    if (pthread_create(&helper->thread, NULL, helper_main, helper) != 0)
        abort();
}

static bool helper_done(struct helper *helper) { /* within a minute */
    for (int i = 0; i < 60000 && !atomic_load(&helper->done); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return atomic_load(&helper->done);
}

static void helper_end(struct helper *helper) {
    atomic_store(&helper->go, true);
    pthread_join(helper->thread, NULL);
}

static bool waiting(unsigned count) { /* so many want it alone */
    for (int i = 0; i < 60000; i++) {
        pthread_mutex_lock(&box.lock.mutex);
        bool there = box.lock.waiting == count;
        pthread_mutex_unlock(&box.lock.mutex);
        if (there)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static void test_rules(void) {
    struct helper one, two;
    ok(box_share(&box, 0, &err) == 0 && box_share(&box, 0, &err) == 0, "it is shared, also twice by one thread");
    helper_start(&one, false, 0);
    ok(helper_done(&one) && one.result == 0, "by several");
    uint64_t begin_ms = clock_ms();
    ok(box_alone(&box, 60000, &err) == -ERR_BUSY && clock_ms() - begin_ms < 30000,
       "who shares it and wants it alone is told at once");
    box_share_end(&box);
    box_share_end(&box);
    begin_ms = clock_ms();
    ok(box_alone(&box, 20, &err) == -ERR_BUSY && clock_ms() - begin_ms >= 20, "nobody has alone what others share");
    helper_end(&one);
    ok_all("when they are gone he has it, and may ask for it again in every way", box_alone(&box, 0, &err) == 0,
           box_alone(&box, 0, &err) == 0, box_share(&box, 0, &err) == 0);
    helper_start(&one, false, 20);
    helper_start(&two, true, 20);
    ok(helper_done(&one) && one.result == -ERR_BUSY, "then nobody shares it");
    ok(helper_done(&two) && two.result == -ERR_BUSY, "nor has it alone");
    helper_end(&one);
    helper_end(&two);
    box_share_end(&box);
    box_alone_end(&box);
    helper_start(&one, false, 0);
    ok(helper_done(&one) && one.result == -ERR_BUSY, "until all he asked for was given back");
    helper_end(&one);
    box_alone_end(&box);
    helper_start(&one, false, 0);
    ok(helper_done(&one) && one.result == 0, "which it is");
    helper_end(&one);
}

static void test_order(void) {
    struct helper writer, reader;
    ok(box_share(&box, 0, &err) == 0, "a command runs");
    helper_start(&writer, true, 60000);
    ok(waiting(1), "somebody wants the box alone");
    helper_start(&reader, false, 60000);
    ok(box_share(&box, 0, &err) == 0, "the command's own reads wait for nobody");
    box_share_end(&box);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    ok(!atomic_load(&reader.done) && !atomic_load(&writer.done), "who comes later to share it lets him go first");
    box_share_end(&box);
    ok(helper_done(&writer) && writer.result == 0, "he has it when the command has ended");
    ok(!atomic_load(&reader.done), "and the later one not yet");
    helper_end(&writer);
    ok(helper_done(&reader) && reader.result == 0, "but then");
    helper_end(&reader);

    ok(box_share(&box, 0, &err) == 0, "a command runs");
    helper_start(&writer, true, 30);
    helper_start(&reader, false, 60000);
    ok(helper_done(&writer) && writer.result == -ERR_BUSY, "who waits too long gives up");
    ok(helper_done(&reader) && reader.result == 0, "and holds up nobody any more");
    helper_end(&writer);
    helper_end(&reader);
    box_share_end(&box);
}

static unsigned ran;
static bool held;

static void when_free(void *user, struct box *freed) {
    ran += user == &ran && freed == &box;
    held = box_alone(&box, 0, &err) != 0; /* nothing is held while it runs */
    if (!held)
        box_alone_end(&box);
}

static void test_free(void) {
    struct helper one;
    box_when_free(&box, when_free, &ran);
    ok(ran == 1, "what waits for a free box runs at once where it is");
    box_share(&box, 0, &err);
    helper_start(&one, false, 0);
    helper_done(&one);
    box_when_free(&box, when_free, &ran);
    box_when_free(&box, when_free, &ran);
    box_share_end(&box);
    ok(ran == 1, "else not before the last command has ended");
    helper_end(&one);
    ok(ran == 2 && !held, "then once, with nothing held");
    box_share(&box, 0, &err);
    box_share_end(&box);
    ok(ran == 2, "and not again");
}

/* Many threads: whoever has it alone finds nobody else. */
static atomic_int inside, broken, turns[2];

static void *crowd_main(void *user) {
    unsigned seed = (unsigned)(uintptr_t)user;
    struct err own;
    for (int i = 0; i < 2000; i++) {
        bool alone = rand_r(&seed) % 4 == 0;
        if ((alone ? box_alone(&box, 20000, &own) : box_share(&box, 20000, &own)) < 0) {
            atomic_fetch_add(&broken, 1);
            continue;
        }
        int others = atomic_fetch_add(&inside, alone ? 1000 : 1);
        broken += alone ? others != 0 : others >= 1000;
        atomic_fetch_add(&turns[alone], 1);
        atomic_fetch_sub(&inside, alone ? 1000 : 1);
        if (alone)
            box_alone_end(&box);
        else
            box_share_end(&box);
    }
    return NULL;
}

static void test_crowd(void) {
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, crowd_main, (void *)(i + 1)) != 0)
            abort();
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    ok_all("many at once: each in turn, and all come", broken == 0, turns[0] + turns[1] == 16000, turns[1] > 3000);
}

int main(void) {
    test_rules();
    test_order();
    test_free();
    test_crowd();
    return tap_end();
}
