/* Messages of a machine, or of a server, into a pump: records, text, numbers at the begin of a connection. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/remote/pump.h"
#include "base/clock.h"

struct input {
    struct view view;
    uint8_t *message; /* exactly as long as what came, so that a read beyond it is seen */
    struct pump *pump;
    uint64_t outgoing;
};

/* u8: text, or given up, and whether something happens here besides; u16 length; the message. */
static int input_recv(void *user, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    struct input *input = user;
    if (input->view.len < 3)
        return err_set(err, ERR_GONE, "the end");
    uint8_t how = view_u8(&input->view);
    size_t len = view_u16(&input->view);
    len = len < input->view.len ? len : input->view.len;
    const uint8_t *data = view_take(&input->view, len);
    free(input->message);
    input->message = malloc(len ? len : 1);
    memcpy(input->message, data, len);
    *ret_text = how & 1;
    *ret_data = input->message;
    *ret_len = len;
    return 1;
}

static bool input_pending(void *user) {
    (void)user;
    return true;
}

static int input_send(void *user, bool text, const void *data, size_t len, struct err *err) {
    (void)text, (void)err;
    struct input *input = user;
    for (size_t i = 0; i < len; i++)
        input->outgoing += ((const uint8_t *)data)[i];
    return input->outgoing % 17 ? 1 : 0;
}

static int input_flush(void *user, struct err *err) {
    (void)user, (void)err;
    return 1;
}

static int input_ping(void *user, struct err *err) {
    (void)user, (void)err;
    return 0;
}

static uint64_t input_heard(void *user) {
    (void)user;
    return clock_ms();
}

static void on_ask(void *user, uint32_t number, const void *json, size_t len) {
    struct input *input = user;
    int fds[2];
    if (len > 2 && ((const uint8_t *)json)[0] == 'o' && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0) {
        pump_open(input->pump, number, fds[0]);
        close(fds[1]);
    }
    pump_answer(input->pump, number, "{}", 2);
}

static void on_shut(void *user, uint32_t channel, const char *why) {
    (void)user, (void)channel;
    if (!why)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    static const struct pump_events machine = {.ask = on_ask, .shut = on_shut}, server = {.shut = on_shut};
    struct input input = {.view = view_of(data + 2, size - 2)};
    input.pump = pump_new(data[0] & 1 ? &machine : &server, &input);
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        abort();
    uint32_t number = pump_number(input.pump);
    pump_number(input.pump);
    pump_open(input.pump, number, fds[0]);
    if (write(fds[1], data, size < 1000 ? size : 1000) < 0)
        abort();
    if (data[0] & 2)
        fcntl(fds[1], F_SETFL, O_NONBLOCK);
    else
        shutdown(fds[1], SHUT_RD);
    struct pump_socket socket = {
        .user = &input,
        .fd = fds[1],
        .text_only = data[0] & 4,
        .recv = input_recv,
        .pending = input_pending,
        .send = input_send,
        .flush = input_flush,
        .ping = input_ping,
        .heard_ms = input_heard,
    };
    struct err err;
    pump_run(input.pump, &socket, 0, &err);
    pump_run(input.pump, &socket, data[1], &err);
    pump_end(input.pump, "the end");
    pump_free(input.pump);
    close(fds[1]);
    free(input.message);
    return 0;
}
