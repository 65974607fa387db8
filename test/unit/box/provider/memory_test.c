/* How much memory is left, in trees as real machines have them: a bare one, a service below a limit, a container. */
#include "box/provider/memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/removal.h"
#include "tap.h"

static char root[] = "/tmp/memory-test-XXXXXX";

static void put(const char *path, const char *text) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        exit(1);
}

int main(void) {
    if (!mkdtemp(root))
        return 1;
    is_number(memory_available(root, 1 << 20), UINT64_MAX, "nothing to read: nothing is known");
    put("/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 5 kB\nMemAvailable:    1024 kB\n");
    is_number(memory_available(root, 1 << 20), 1 << 20, "the machine's");
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "5\n");
    is_number(memory_available(root, 1 << 20), 1 << 20, "v2 without a limit");
    put("/sys/fs/cgroup/a/memory.max", "1000\n");
    put("/sys/fs/cgroup/a/memory.current", "900\n");
    is_number(memory_available(root, 1 << 20), 100, "v2: a limit further up");
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\nfile 700\nactive_file 0\ninactive_file 300\n");
    is_number(memory_available(root, 1 << 20), 400, "pages of files that nobody uses are free");
    is_number(memory_available(root, 100), 100, "not looked at closely where there is enough");
    put("/sys/fs/cgroup/a/memory.current", "2000\n");
    put("/sys/fs/cgroup/a/memory.stat", "inactive_file 0\n");
    is_number(memory_available(root, 1 << 20), 0, "above the limit nothing is left");
    put("/sys/fs/cgroup/a/memory.max", "99999999999999\n");
    is_number(memory_available(root, 1 << 20), 1 << 20, "a limit above the machine is none");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/svc\n0::/\n");
    put("/sys/fs/cgroup/memory/svc/memory.limit_in_bytes", "5000\n");
    put("/sys/fs/cgroup/memory/svc/memory.usage_in_bytes", "4000\n");
    put("/sys/fs/cgroup/memory/svc/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    is_number(memory_available(root, 1 << 20), 1500, "v1");
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "3000\n");
    put("/sys/fs/cgroup/memory.current", "1000\n");
    is_number(memory_available(root, 1 << 20), 2000, "a container, where the root has the limit");
    put("/proc/self/cgroup", "nonsense");
    is_number(memory_available(root, 1 << 20), 1 << 20, "nonsense limits nothing");
    removal_tree(AT_FDCWD, root);
    return tap_end();
}
