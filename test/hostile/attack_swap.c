/* The other half of a race: names in a box that are now a directory or a file, now a link to the outside.
 * usage: attack_swap DIR COUNT TARGET...
 * Makes in DIR, for the i-th target, pairs that it exchanges as fast as it can:
 *   d<i> a directory with f, e, sub/f, sub/deep/f      and  l<i> a link to TARGET
 *   f<i> a file                                        and  k<i> a link to TARGET/f
 *   t/x<i> a directory as above                        and  t/y<i> a link to TARGET, in a tree others may remove
 * A target "@PATH" is reached through two more links and "..". Goes on until COUNT exchanges were made and the file
 * DIR/stop is there, then prints how many there were and how often a pair had to be made anew. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS_MAX = 96, PATH_BYTES = 600, STOP_LOOK_EACH = 256, BREATH_EACH = 64 };

struct pair {
    char real[64], link[64], target[PATH_BYTES];
    int file;
};

static void make_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

static void make_dir(const char *path) {
    static const char *const dirs[] = {"", "/sub", "/sub/deep"};
    static const char *const files[] = {"/f", "/e", "/sub/f", "/sub/deep/f"};
    char name[128];
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        snprintf(name, sizeof name, "%s%s", path, dirs[i]);
        mkdir(name, 0755);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s%s", path, files[i]);
        make_file(name, "inside\n");
    }
}

/* What is missing of a pair. Which of the two names holds the link does not matter. */
static void make_pair(const struct pair *pair) {
    struct stat a, b;
    mkdir("t", 0755);
    int has_a = lstat(pair->real, &a) == 0, has_b = lstat(pair->link, &b) == 0;
    const char *free_name = !has_a ? pair->real : !has_b ? pair->link : NULL;
    if (!free_name)
        return;
    int other_is_link = has_a ? S_ISLNK(a.st_mode) : has_b ? S_ISLNK(b.st_mode) : 0;
    if (!has_a && !has_b) {
        (void)!symlink(pair->target, pair->link);
        other_is_link = 1;
    }
    if (!other_is_link)
        (void)!symlink(pair->target, free_name);
    else if (pair->file)
        make_file(free_name, "inside\n");
    else
        make_dir(free_name);
}

static size_t make_target(struct pair *pairs, size_t count, int index, const char *target) {
    char through[PATH_BYTES];
    if (target[0] == '@') {
        char first[32], second[32];
        snprintf(first, sizeof first, "c%da", index);
        snprintf(second, sizeof second, "c%db", index);
        snprintf(through, sizeof through, "../../../../../../../../../..%s", target + 1);
        (void)!symlink(second, first);
        (void)!symlink(through, second);
        snprintf(through, sizeof through, "%s", first);
    } else {
        snprintf(through, sizeof through, "%s", target);
    }
    static const char *const names[][2] = {{"d", "l"}, {"f", "k"}, {"t/x", "t/y"}};
    for (size_t kind = 0; kind < 3 && count < PAIRS_MAX; kind++) {
        struct pair *pair = &pairs[count++];
        *pair = (struct pair){.file = kind == 1};
        snprintf(pair->real, sizeof pair->real, "%s%d", names[kind][0], index);
        snprintf(pair->link, sizeof pair->link, "%s%d", names[kind][1], index);
        snprintf(pair->target, sizeof pair->target, "%.500s%s", through, kind == 1 ? "/f" : "");
        make_pair(pair);
    }
    return count;
}

int main(int argc, char **argv) {
    static struct pair pairs[PAIRS_MAX];
    size_t count = 0;
    if (argc < 4 || (mkdir(argv[1], 0755) < 0 && errno != EEXIST) || chdir(argv[1]) < 0) {
        perror("attack_swap");
        return 2;
    }
    for (int i = 3; i < argc; i++)
        count = make_target(pairs, count, i - 3, argv[i]);
    make_file("ready", "");
    unsigned long long wanted = strtoull(argv[2], NULL, 10), swaps = 0, made_anew = 0;
    for (unsigned long long turn = 1;; turn++) {
        const struct pair *pair = &pairs[turn % count];
        if (syscall(SYS_renameat2, AT_FDCWD, pair->real, AT_FDCWD, pair->link, RENAME_EXCHANGE) == 0) {
            swaps++;
        } else {
            made_anew++;
            make_pair(pair);
        }
        if (turn % STOP_LOOK_EACH == 0 && swaps >= wanted && access("stop", F_OK) == 0)
            break;
        /* Now and then nothing moves for a moment, so that calls of several steps come through as well. */
        if (turn % BREATH_EACH == 0)
            nanosleep(&(struct timespec){.tv_nsec = (long)(turn * 7919 % 400000)}, NULL);
    }
    printf("swaps %llu\nmade anew %llu\n", swaps, made_anew);
    return 0;
}
