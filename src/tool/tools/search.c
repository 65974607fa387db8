/* Helpers of the searching tools: ls, glob, grep. */
#include "tool/tools/search.h"

#include <string.h>

#include "base/text.h"

const char search_ignored[] =
    "{.git,.svn,.hg,.bzr,node_modules,__pycache__,.venv,venv,.env,env,.tox,.nox,.eggs,*.egg-info,site-packages,dist,"
    "build,.next,.nuxt,.output,.turbo,target,out,.idea,.vscode,*.swp,*.swo,*~,.project,.classpath,.settings,"
    ".DS_Store,Thumbs.db,desktop.ini,*.lnk,*.log,*.tmp,*.temp,.upload-*.part,*.bak,*.cache,.cache,logs,.coverage,"
    "coverage,.nyc_output,htmlcov,.pytest_cache,.mypy_cache,.ruff_cache}";

int search_failed(struct tool_call *call, const char *path, int code, struct err *err) {
    static const struct {
        int code;
        const char *what, *why; /* the runner's reason must end so; NULL: whatever it is */
    } known[] = {
        {-ERR_NOT_FOUND, "Directory not found", NULL},
        {-ERR_DENIED, "Permission denied", NULL},
        {-ERR_INVALID, "Path is not a directory", "' is not a directory"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *at = known[i].why ? strstr(err->text, known[i].why) : "";
        if (known[i].code == code && at && (!known[i].why || strcmp(at, known[i].why) == 0))
            return tool_fail(call, "%s: %s", known[i].what, path);
    }
    return code;
}

uint64_t search_limit(const struct row_number *asked, uint64_t usual, uint64_t most) {
    uint64_t limit = asked->has && asked->value ? asked->value : usual;
    return limit && limit < most ? limit : most;
}

void search_show(struct buf *out, const char *path) {
    text_shown(out, path, strlen(path));
}
