/* The rows of what a box uses; the rest of them is in args.c. */
#include "front/native/args.h"

/* Not in lists: they cost more to read than all others. */
#define USAGE_MORE(holder, of)                                                                                         \
    OUT_NULL("net_rx_bytes", INT, holder, of net_rx_bytes, "received by its own network interfaces; null in lists"),   \
        OUT_NULL("net_tx_bytes", INT, holder, of net_tx_bytes, "sent by them; null in lists"),                         \
        OUT_NULL("read_bytes", INT, holder, of read_bytes, "read from disks; null in lists"),                          \
        OUT_NULL("write_bytes", INT, holder, of write_bytes, "written to disks; null in lists")

static const struct row usage_network_answer[] = {
    OUT_INT("connections", usage_network_out, connections, "that were made since the box started"),
    OUT_INT("active", usage_network_out, active, "that are open"),
    OUT_INT("denied", usage_network_out, denied, "that were refused"),
    OUT_INT("bytes_in", usage_network_out, bytes_in, "to the box"),
    OUT_INT("bytes_out", usage_network_out, bytes_out, "from the box"),
    ROW_NAMED("UsageNetwork"),
};
const struct row usage_answer[] = {
    OUT_NULL("memory_bytes", INT, usage_out, memory_bytes, "memory in use"),
    OUT_NULL("cpu_ms", INT, usage_out, cpu_ms, "processor time so far"),
    OUT_NULL("pids", INT, usage_out, pids, "processes and threads now"),
    OUT_NULL("disk_bytes", INT, usage_out, disk_bytes, "bytes in the box's own files"),
    USAGE_MORE(usage_out, ),
    OUT_OBJECT_NULL("network", usage_out, network, usage_network_answer,
                    "of a box with a network policy that runs; only where one box is asked for, else null"),
    ROW_NAMED("Usage"),
};
const struct row usage_query[] = {
    {ROW("since", TEXT, usage_args, since), .min = 1, .max = 40, .text = "measured at this time or later, RFC 3339"},
    {ROW("until", TEXT, usage_args, until), .min = 1, .max = 40, .text = "measured at this time or earlier, RFC 3339"},
    END,
};
static const struct row usage_at_answer[] = {
    OUT("at", TIME, usage_at_out, at_ms, "when it was measured"),
    OUT_NULL("memory_bytes", INT, usage_at_out, usage.memory_bytes, "memory in use"),
    OUT_NULL("cpu_ms", INT, usage_at_out, usage.cpu_ms, "processor time so far"),
    OUT_NULL("pids", INT, usage_at_out, usage.pids, "processes and threads"),
    OUT_NULL("disk_bytes", INT, usage_at_out, usage.disk_bytes, "bytes in the box's own files"),
    USAGE_MORE(usage_at_out, usage.),
    ROW_NAMED("UsageAt"),
};
const struct row usages_answer[] = {
    {.name = "samples",
     .type = ROW_OBJECTS,
     .fields = usage_at_answer,
     .text = "the oldest first, the last one of now; the longer a box runs, the further apart they are"},
    ROW_NAMED("UsageOverTime"),
};
