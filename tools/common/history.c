/* history.c - how a file came to be: a line a run, in its metadata. */
#include "tools/common/cli.h"

#include <time.h>

static zt_status put_line(zt_cli *cli, const char *what, zt_str *line)
{
    char when[40];
    time_t now = time(NULL);
    struct tm utc;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return zt_str_printf(line, "%s " ZT_VERSION " %s: %s", cli->tool->name, when, what);
}

zt_status zt_cli_history(zt_cli *cli, zt_meta *m, const char *what)
{
    static const char key[] = "zt.history";
    int64_t at = zt_meta_find(m, key);
    const zt_meta_item *old = at >= 0 ? zt_meta_get(m, at) : NULL;
    zt_gguf_kind kind;
    uint64_t n = 0;
    size_t pos = 0;
    zt_str line;
    if (!old || !zt_meta_array(old, &kind, &n) || kind != ZT_GGUF_STR)
        n = 0;
    zt_bytes *lines = zt_alloc_array(cli->ctx, (size_t)n + 1, sizeof *lines);
    zt_str_init(&line, cli->ctx);
    zt_status s = lines ? put_line(cli, what, &line) : ZT_ENOMEM;
    for (uint64_t i = 0; s == ZT_OK && i < n; i++)
        lines[i] = zt_meta_next_str(old, &pos);
    if (s == ZT_OK) {
        lines[n] = (zt_bytes){line.data, line.len};
        s = zt_meta_put_strs(m, key, lines, (int64_t)n + 1);
    }
    zt_str_fini(&line);
    zt_free(cli->ctx, lines);
    return s;
}
