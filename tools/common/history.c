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

zt_status zt_cli_history(zt_cli *cli, zt_meta *meta, const char *what)
{
    static const char key[] = "zt.history";
    int64_t index = zt_meta_find(meta, key);
    const zt_meta_item *old = index >= 0 ? zt_meta_get(meta, index) : NULL;
    zt_gguf_kind kind;
    uint64_t line_count = 0;
    size_t position = 0;
    zt_str line;
    if (!old || !zt_meta_array(old, &kind, &line_count) || kind != ZT_GGUF_STR) line_count = 0;
    zt_bytes *lines = zt_alloc_array(cli->ctx, (size_t)line_count + 1, sizeof *lines);
    zt_str_init(&line, cli->ctx);
    zt_status status = lines ? put_line(cli, what, &line) : ZT_ENOMEM;
    for (uint64_t i = 0; status == ZT_OK && i < line_count; i++) lines[i] = zt_meta_next_str(old, &position);
    if (status == ZT_OK) {
        lines[line_count] = (zt_bytes){line.data, line.len};
        status = zt_meta_put_strs(meta, key, lines, (int64_t)line_count + 1);
    }
    zt_str_fini(&line);
    zt_free(cli->ctx, lines);
    return status;
}
