/* Sessions of MCP and what runs in them: how many, whose, until when; and how a request learns that it is cancelled. */
#include "tool/mcp/mcp.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "tool/mcp/mcp_core.h"
#include "tap.h"

static char sent[4096];

static int keep_sent(struct mcp_exchange *exchange, const char *text, size_t len, bool last) {
    (void)exchange;
    (void)last;
    snprintf(sent, sizeof sent, "%.*s", (int)len, text);
    return 0;
}

static void begin_nothing(struct mcp_exchange *exchange, struct tool_call *call) {
    (void)exchange;
    (void)call;
}

static const struct tool_host host; /* that has nothing */

/* A session of the owner's, given back: only the table holds it. */
static bool make(struct mcp *mcp, const char *owner, char ret_id[33]) {
    struct mcp_session *session;
    struct err err;
    if (mcp_session_new(mcp, owner, &session, &err) < 0)
        return false;
    memcpy(ret_id, mcp_session_id(session), 33);
    mcp_session_put(session);
    return true;
}

static bool there(struct mcp *mcp, const char *id, const char *owner) {
    struct mcp_session *session = mcp_session_get(mcp, id, owner);
    mcp_session_put(session);
    return session;
}

static bool hung_up(int fd) {
    struct pollfd look = {.fd = fd, .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0;
}

static void test_sessions(void) {
    struct mcp *mcp = mcp_new();
    char first[33], second[33], id[33];
    ok_all("sessions have ids of their own", make(mcp, "ann", first), make(mcp, "ann", second),
           strcmp(first, second) != 0);
    ok_all("and are found by their owner only", there(mcp, first, "ann"), !there(mcp, first, "bob"),
           !there(mcp, "x", "ann"));
    struct mcp_session *held = mcp_session_get(mcp, first, "ann");
    mcp_session_end(held);
    mcp_session_end(held);
    ok(!there(mcp, first, "ann"), "an ended one is not found, though somebody holds it");
    mcp_session_put(held);
    mcp_session_sweep(mcp, clock_ms() + MCP_SESSION_IDLE_MS - 1000);
    ok(there(mcp, second, "ann"), "one that was used within its time stays");
    mcp_session_sweep(mcp, clock_ms() + MCP_SESSION_IDLE_MS + 1000);
    ok(!there(mcp, second, "ann"), "one that was not is forgotten");
    make(mcp, "ann", first);
    bool all = true;
    for (unsigned i = 1; i < LIMIT_MCP_SESSIONS_PER_USER; i++)
        all = all && make(mcp, "ann", id);
    ok(all && there(mcp, first, "ann"), "a user has as many as the limit says");
    make(mcp, "bob", second);
    ok_all("one more ends one of his own", make(mcp, "ann", id), there(mcp, id, "ann"), there(mcp, second, "bob"));
    for (unsigned i = 0; i < LIMIT_MCP_SESSIONS + 10; i++) {
        char owner[32];
        snprintf(owner, sizeof owner, "user-%u", i);
        all = all && make(mcp, owner, id);
    }
    ok_all("all together they are bounded, the oldest go", all, !there(mcp, second, "bob"),
           there(mcp, id, "user-4105"));
    mcp_free(mcp);
}

static void read_message(struct mcp_message *message, const char *text) {
    mcp_read(message, text, strlen(text));
}

static void test_cancel(void) {
    struct mcp *mcp = mcp_new();
    struct mcp_session *session = mcp_session_only(mcp);
    struct mcp_exchange call = {.mcp = mcp,
                                .host = &host,
                                .send = keep_sent,
                                .begin = begin_nothing,
                                .session = session,
                                .watch = -1},
                        other = call;
    struct mcp_message message, notice;
    read_message(&message, "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":\"tools/call\"}");
    read_message(&notice, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}");
    mcp_enter(&call, &message);
    int watch = mcp_running_watch(&call);
    mcp_enter(&other, &notice);
    ok_all("the number 7 does not cancel the text \"7\"", message.slow, watch >= 0, !hung_up(watch));
    mcp_message_done(&notice);
    read_message(&notice,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"7\"}}");
    mcp_enter(&other, &notice);
    mcp_enter(&other, &notice);
    ok(hung_up(watch), "its own id does, once and for all");
    ok(mcp_running_leave(&call), "whoever ends learns of it");
    mcp_message_done(&notice);
    read_message(&notice, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":8}}");
    mcp_enter(&other, &notice);
    mcp_message_done(&message);
    read_message(&message,
                 "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{\"name\":\"nothing\"}}");
    sent[0] = 0;
    call.settings = &tool_defaults;
    mcp_enter(&call, &message);
    ok(hung_up(mcp_running_watch(&call)), "what was cancelled before it came is cancelled when it comes");
    mcp_serve(&call, &message);
    ok(!sent[0] && !call.running, "and is not answered");
    mcp_message_done(&message);
    read_message(&message,
                 "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{\"name\":\"nothing\"}}");
    mcp_enter(&call, &message);
    ok(mcp_running_watch(&call) >= 0 && !hung_up(mcp_running_watch(&call)), "only once");
    mcp_session_end(session);
    ok(hung_up(mcp_running_watch(&call)), "the end of a session cancels what runs in it");
    mcp_running_leave(&call);
    mcp_message_done(&message);
    mcp_message_done(&notice);
    mcp_session_put(session);
    mcp_free(mcp);
}

int main(void) {
    test_sessions();
    test_cancel();
    return tap_end();
}
