/* progress.c - a bar on stderr, drawn at most ten times a second and taken away at the end. */
#include "tools/common/internal.h"
#include <string.h>

void zt_progress_erase(zt_cli_state *st)
{
    if (st->drawn)
        fputs("\r\033[K", stderr);
    st->drawn = false;
}

void zt_progress(zt_cli *cli, const char *what, double done, double total)
{
    enum { WIDTH = 30 };
    static const char full[WIDTH + 1] = "##############################";
    zt_cli_state *st = (zt_cli_state *)cli;
    if (cli->progress != 1)
        return;
    double now = zt_seconds(), share = total > 0 ? done / total : 0;
    if (share >= 1) {
        zt_progress_erase(st);
        st->drawn_at = 0;
        return;
    }
    if (now - st->drawn_at < 0.1)
        return;
    char shown[64];
    int n = share > 0 ? (int)(share * WIDTH) : 0;
    fprintf(stderr, "\r\033[K%s [%-*.*s] %3.0f%%",
            zt_escape(shown, sizeof shown, what, strlen(what)), WIDTH, n, full, share * 100);
    fflush(stderr);
    st->drawn = true;
    st->drawn_at = now;
}
