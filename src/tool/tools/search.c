/* Helpers of the searching tools: ls, glob, grep. */
#include "base/base.h"
#include "tool/tools/search.h"

const char search_ignored[] =
    "{.git,.svn,.hg,.bzr,node_modules,__pycache__,.venv,venv,.env,env,.tox,.nox,.eggs,*.egg-info,site-packages,dist,"
    "build,.next,.nuxt,.output,.turbo,target,out,.idea,.vscode,*.swp,*.swo,*~,.project,.classpath,.settings,"
    ".DS_Store,Thumbs.db,desktop.ini,*.lnk,*.log,*.tmp,*.temp,.upload-*.part,*.bak,*.cache,.cache,logs,.coverage,"
    "coverage,.nyc_output,htmlcov,.pytest_cache,.mypy_cache,.ruff_cache}";

int search_failed(struct tool_call *call, const char *path, int code, struct err *err) {
    const char *what = code == -ERR_NOT_FOUND   ? "Directory not found"
                       : code == -ERR_DENIED    ? "Permission denied"
                       : err->number == ENOTDIR ? "Path is not a directory"
                                                : NULL;
    return what ? tool_fail(call, "%s: %s", what, path) : code;
}

uint64_t search_limit(const struct row_number *asked, uint64_t usual, uint64_t most) {
    uint64_t limit = asked->has && asked->value ? asked->value : usual;
    return limit && limit < most ? limit : most;
}

void search_found(struct tool_call *call, const char *path, const char *none, const char *what, uint64_t count,
                  bool cut, const struct buf *lines) {
    unsigned long long shown = count;
    if (!count)
        tool_say(call, "%s %s", none, path);
    else
        tool_say(call, "Found %llu %s %s", shown, what, path);
    if (count && cut)
        tool_say(call, " (showing first %llu)", shown);
    tool_put(call, lines->data, lines->len);
}

void search_show(struct buf *out, const char *path) {
    text_shown(out, path, strlen(path));
}
