/* progress.c - a bar on stderr: how far a work is, how fast it goes, how long it will take, and on what it
 * is. It is drawn at most ten times a second, in one line that is never wider than the terminal, and
 * taken away before anything else is written there. */
#include "tools/common/internal.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    USUAL_COLUMNS = 80, /* where stderr has no width */
    LEAST_BAR = 10,
    MOST_BAR = 30,
    LEAST_ITEM = 8 /* columns; of a name less says nothing */
};

static zt_cli_state *state_of(zt_cli *cli)
{
    return (zt_cli_state *)cli;
}

/* ---- columns --------------------------------------------------------------------------------- */

static size_t columns_of_terminal(void)
{
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : USUAL_COLUMNS;
}

/* Columns that a character takes: 2 in the scripts of East Asia and for emoji, none where it
 * combines with the one before it. */
static size_t columns_of(uint32_t c)
{
    static const struct {
        uint32_t from, to, columns;
    } range[] = {
        {0x0300, 0x036f, 0}, {0x1100, 0x115f, 2}, {0x200b, 0x200f, 0}, {0x2e80, 0xa4cf, 2},
        {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2}, {0xfe00, 0xfe0f, 0}, {0xfe30, 0xfe6f, 2},
        {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (c >= range[i].from && c <= range[i].to)
            return range[i].columns;
    return 1;
}

/* Bytes at the beginning of the text that take at most `most` columns; *columns: how many they take. */
static size_t fitting(const char *text, size_t most, size_t *columns)
{
    size_t at = 0, n = strlen(text);
    uint32_t c;
    for (*columns = 0; at < n;) {
        int bytes = zt_utf8_decode(text + at, n - at, &c);
        size_t wide = bytes ? columns_of(c) : 1;
        if (*columns + wide > most)
            break;
        *columns += wide;
        at += bytes ? (size_t)bytes : 1;
    }
    return at;
}

/* ---- the line -------------------------------------------------------------------------------- */

typedef struct line {
    char text[1024];
    size_t n, left; /* bytes; columns that are left */
} line;

/* As much of the text as there is room for; a cut is marked. */
static void put(line *l, const char *text)
{
    size_t columns, all = strlen(text), n = fitting(text, l->left, &columns);
    const char *mark = "";
    if (n < all && l->left > 3) {
        mark = "...";
        n = fitting(text, l->left - 3, &columns);
    }
    if (l->n + n + 4 > sizeof l->text)
        return;
    memcpy(l->text + l->n, text, n);
    memcpy(l->text + l->n + n, mark, strlen(mark) + 1);
    l->n += n + strlen(mark);
    l->left -= columns + strlen(mark);
}

static void put_rate(line *l, double rate, const char *unit)
{
    static const char *const sizes[] = {"B", "kB", "MB", "GB", "TB"};
    char text[64];
    bool bytes = unit && strcmp(unit, "B") == 0;
    int i = 0;
    for (; bytes && rate >= 1000 && i < 4; i++)
        rate /= 1000;
    if (bytes)
        snprintf(text, sizeof text, "  %.*f %s/s", rate < 10 && i ? 1 : 0, rate, sizes[i]);
    else
        snprintf(text, sizeof text, "  %.*f%s%s/s", rate < 1 ? 2 : rate < 100 ? 1 : 0, rate,
                 unit ? " " : "", unit ? unit : "");
    put(l, text);
}

static void put_time_left(line *l, double seconds)
{
    char text[64];
    long long s = seconds < 1e9 ? (long long)ceil(seconds) : 1000000000;
    if (s >= 3600)
        snprintf(text, sizeof text, "  %lld:%02lld:%02lld left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, sizeof text, "  %lld:%02lld left", s / 60, s % 60);
    put(l, text);
}

static void put_bar(line *l, size_t columns, const char *what, double share)
{
    static const char full[MOST_BAR + 1] = "##############################";
    char shown[64], text[160];
    int width = columns / 5 < LEAST_BAR  ? LEAST_BAR
                : columns / 5 > MOST_BAR ? MOST_BAR
                                         : (int)(columns / 5);
    int n = share > 0 ? (int)(share * width) : 0;
    snprintf(text, sizeof text, "%s [%-*.*s] %3.0f%%", zt_escape(shown, sizeof shown, what, strlen(what)),
             width, n, full, share * 100);
    put(l, text);
}

static void put_item(line *l, const char *item)
{
    char shown[512];
    if (l->left < LEAST_ITEM + 2)
        return;
    put(l, "  ");
    put(l, zt_escape(shown, sizeof shown, item, strlen(item)));
}

/* ---- the bar --------------------------------------------------------------------------------- */

void zt_progress_erase(zt_cli_state *st)
{
    if (st->drawn)
        fputs("\r\033[K", stderr);
    st->drawn = false;
}

void zt_progress_clear(zt_cli *cli)
{
    zt_progress_erase(state_of(cli));
}

/* Another work, or the same once more: its rate is its own. */
static void begin(zt_cli_state *st, const char *what, double done, double now)
{
    snprintf(st->doing, sizeof st->doing, "%s", what);
    st->began_at = now;
    st->began_done = done;
}

static bool goes_on(const zt_cli_state *st, const char *what, double done)
{
    return strncmp(st->doing, what, sizeof st->doing - 1) == 0 && done >= st->last_done;
}

static void draw(const zt_cli_state *st, const zt_work *w, double now)
{
    size_t columns = columns_of_terminal();
    line l = {.left = columns - 1}; /* a full line would wrap */
    double took = now - st->began_at, rate = took > 0 ? (w->done - st->began_done) / took : 0;
    put_bar(&l, columns, w->what, w->done / w->total);
    if (rate > 0) {
        put_rate(&l, rate, w->unit);
        put_time_left(&l, (w->total - w->done) / rate);
    }
    if (w->item)
        put_item(&l, w->item);
    fprintf(stderr, "\r\033[K%s", l.text);
    fflush(stderr);
}

void zt_progress(zt_cli *cli, const zt_work *w)
{
    zt_cli_state *st = state_of(cli);
    if (cli->progress != 1)
        return;
    double now = zt_seconds();
    if (!goes_on(st, w->what, w->done))
        begin(st, w->what, w->done, now);
    st->last_done = w->done;
    if (!(w->done < w->total)) { /* it is done */
        zt_progress_erase(st);
        st->drawn_at = 0;
        st->doing[0] = 0;
        return;
    }
    if (now - st->drawn_at < 0.1)
        return;
    draw(st, w, now);
    st->drawn = true;
    st->drawn_at = now;
}
