/* pt_formats.c - owns the two formats of checkpoints: where their pickles and storages lie.
 *
 * torch/serialization.py and caffe2/serialize of PyTorch 2, as facts. */
#include "lib/io/fault.h"
#include "lib/io/pt_file.h"

#include <stdlib.h>
#include <string.h>

enum {
    MIN_VERSION = 1, /* of the zip format */
    MAX_VERSION = 10,
    OLDER_VERSION = 1001,
    DENSE = 16,     /* a pickle that is deflated has at most so many times the file's bytes */
    MAX_RECORD = 32 /* bytes of a small record */
};

/* The long number that an older file begins with, as it lies in its pickle. */
static const uint8_t magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* Memory that a pickle may take: real ones need about as much as the file that they are in has. */
static size_t budget(const zt_pt *t)
{
    uint64_t n = zt_source_size(t->in);
    return n > SIZE_MAX / 8 ? SIZE_MAX / 2 : (size_t)(4 * n) + (40 << 20);
}

/* The reading of pickles that lie in what `fetch` gives, `bytes` of it; zt_free it. */
static pickle *begin_pickle(zt_pt *t, zt_fetch *fetch, void *user, uint64_t bytes)
{
    pickle *p = zt_calloc(t->ctx, 1, sizeof *p);
    if (p)
        *p = (pickle){.ctx = t->ctx,
                      .file = t->file,
                      .keep = t->keep,
                      .budget = budget(t),
                      .fetch = fetch,
                      .user = user,
                      .end = bytes};
    return p;
}

/* ---- zip ------------------------------------------------------------------------------------- */

/* The member ROOT/NAME, -1: there is none. */
static zt_status find(zt_pt *t, const char *root, size_t root_n, const char *name, int64_t *i)
{
    zt_str s;
    zt_str_init(&s, t->ctx);
    zt_status st = zt_str_put(&s, root, root_n);
    if (st == ZT_OK)
        st = zt_str_printf(&s, "/%s", name);
    *i = st == ZT_OK ? zt_zip_find(t->zip, s.data) : -1;
    zt_str_fini(&s);
    return st;
}

/* A small record as text without white space at its end; "" when there is none. */
static zt_status record(zt_pt *t, const char *root, size_t root_n, const char *name,
                        char text[MAX_RECORD])
{
    int64_t i;
    text[0] = 0;
    zt_status st = find(t, root, root_n, name, &i);
    if (st != ZT_OK)
        return st;
    uint64_t n = i < 0 ? 0 : zt_zip_get(t->zip, i)->size;
    if (n >= MAX_RECORD)
        return zt_fail(t->ctx, ZT_EDATA, "%s: a record '%s' of %llu bytes", t->file, name,
                       (unsigned long long)n);
    st = i < 0 ? ZT_OK : zt_zip_read(t->zip, i, 0, text, (size_t)n);
    while (n && strchr(" \n\r\t", text[n - 1]))
        n--;
    text[st == ZT_OK ? n : 0] = 0;
    return st;
}

static zt_status check_records(zt_pt *t, const char *root, size_t n)
{
    char text[MAX_RECORD], escaped[160];
    int64_t v = 0, code = -1;
    zt_status st = record(t, root, n, "version", text);
    if (st == ZT_OK && !*text)
        st = record(t, root, n, ".data/version", text);
    if (st == ZT_OK && (!zt_parse_i64(text, &v) || v < MIN_VERSION || v > MAX_VERSION))
        st = zt_fail(t->ctx, ZT_EDATA, "%s: version '%s', there are %d to %d", t->file,
                     zt_escape(escaped, sizeof escaped, text, strlen(text)), MIN_VERSION,
                     MAX_VERSION);
    if (st == ZT_OK)
        st = record(t, root, n, "byteorder", text);
    t->big = strcmp(text, "big") == 0;
    if (st == ZT_OK && *text && !t->big && strcmp(text, "little") != 0)
        st = zt_fail(t->ctx, ZT_EDATA, "%s: byte order '%s'", t->file,
                     zt_escape(escaped, sizeof escaped, text, strlen(text)));
    if (st == ZT_OK)
        st = find(t, root, n, "constants.pkl", &code);
    if (st == ZT_OK && code >= 0)
        st = zt_fail(t->ctx, ZT_EDATA, "%s: a TorchScript program, which is code", t->file);
    return st;
}

/* All members lie in one folder, whatever its name is. */
static zt_status find_root(const zt_pt *t, const char **root, size_t *n)
{
    int64_t members = zt_zip_count(t->zip);
    const char *first = members ? zt_zip_get(t->zip, 0)->name : "", *slash = strchr(first, '/');
    *root = first;
    *n = slash ? (size_t)(slash - first) : 0;
    bool one = slash != NULL;
    for (int64_t i = 1; one && i < members; i++)
        one = strncmp(zt_zip_get(t->zip, i)->name, first, *n + 1) == 0;
    return one ? ZT_OK
               : zt_fail(t->ctx, ZT_EDATA, "%s: a zip, but its members are not in one folder",
                         t->file);
}

/* Storages are members data/KEY, and have the size that the pickle says. */
static zt_status place_members(zt_pt *t, const char *root, size_t n)
{
    char text[160];
    zt_str name;
    zt_status st = ZT_OK;
    zt_str_init(&name, t->ctx);
    for (int64_t i = 0; st == ZT_OK && i < t->n_storages; i++) {
        pt_storage *s = &t->storage[i];
        zt_str_clear(&name);
        st = zt_str_printf(&name, "data/%s", s->key);
        if (st == ZT_OK)
            st = find(t, root, n, name.data, &s->member);
        s->placed = s->member >= 0;
        if (!s->placed || zt_zip_get(t->zip, s->member)->size == s->bytes)
            continue;
        st = zt_fail(t->ctx, ZT_EDATA, "%s: storage '%s' is of %llu bytes, %llu are there", t->file,
                     zt_escape(text, sizeof text, s->key, strlen(s->key)),
                     (unsigned long long)s->bytes,
                     (unsigned long long)zt_zip_get(t->zip, s->member)->size);
        st = zt_faults_pass(t->ctx, st);
        s->placed = false;
        s->told = true;
    }
    zt_str_fini(&name);
    return st;
}

static void end_pickle(zt_pt *t, pickle *p)
{
    zt_pickle_end(p);
    zt_free(t->ctx, p);
}

static zt_status read_pickle(zt_pt *t, pickle *p, pk_value *root)
{
    zt_status st = zt_pickle_read(p, root);
    if (st == ZT_OK)
        st = zt_pt_collect(t, *root, p);
    return st;
}

zt_status zt_pt_parse_zip(zt_pt *t)
{
    const char *root;
    size_t n;
    pk_value v;
    zt_status st = find_root(t, &root, &n);
    if (st == ZT_OK)
        st = check_records(t, root, n);
    if (st != ZT_OK)
        return st;
    zt_zip_member m = {.zip = t->zip};
    st = find(t, root, n, "data.pkl", &m.index);
    if (st != ZT_OK)
        return st;
    if (m.index < 0)
        return zt_fail(t->ctx, ZT_EDATA, "%s: a zip without its data.pkl", t->file);
    if (zt_zip_get(t->zip, m.index)->size > zt_source_size(t->in) * DENSE + (1 << 20))
        return zt_fail(t->ctx, ZT_EDATA, "%s: its data.pkl is far larger than the file", t->file);
    pickle *p = begin_pickle(t, zt_zip_fetch, &m, zt_zip_get(t->zip, m.index)->size);
    if (!p)
        return ZT_ENOMEM;
    st = read_pickle(t, p, &v);
    if (st == ZT_OK && p->at != p->end)
        st = zt_pk_fail(p, "bytes follow its end");
    end_pickle(t, p);
    return st == ZT_OK ? place_members(t, root, n) : st;
}

/* ---- the older format ------------------------------------------------------------------------ */

static zt_status fetch_file(void *user, uint64_t offset, void *dst, size_t n)
{
    return zt_source_read(user, offset, dst, n);
}

/* Of protocols 0 and 1 as text; from 4 on a frame may be around it. */
bool zt_pt_sniff(const void *bytes, size_t n)
{
    static const char text[] = "L119547037146038801333356L\n.";
    const uint8_t *b = bytes;
    if (n >= sizeof text - 1 && memcmp(b, text, sizeof text - 1) == 0)
        return true;
    size_t at = n > 2 && b[2] == 0x95 ? 11 : 2;
    return n >= at + 2 + sizeof magic && b[0] == 0x80 && b[at] == 0x8a &&
           b[at + 1] == sizeof magic && memcmp(b + at + 2, magic, sizeof magic) == 0;
}

/* A pickle in which nothing may be named. */
static zt_status read_plain(pickle *p, pk_value *v)
{
    p->plain = true;
    zt_status st = zt_pickle_read(p, v);
    p->plain = false;
    return st;
}

/* Does it tell which byte order the machine had? Storages are little endian all the same. */
static bool is_machine(const pk_value *v)
{
    for (size_t i = 0; v->kind == PK_DICT && i < v->list->n; i += 2) {
        const pk_value *key = &v->list->item[i];
        if (key->kind == PK_TEXT && strcmp(key->text, "little_endian") == 0)
            return key[1].kind == PK_BOOL;
    }
    return false;
}

/* Magic number, version, and a dictionary about the machine, each a pickle. */
static zt_status read_preamble(zt_pt *t, pickle *p)
{
    pk_value v;
    zt_status st = read_plain(p, &v);
    if (st == ZT_OK &&
        (v.kind != PK_LONG || v.n != sizeof magic || memcmp(v.text, magic, v.n) != 0))
        st = zt_fail(t->ctx, ZT_EDATA, "%s: this is no checkpoint of PyTorch's", t->file);
    if (st == ZT_OK)
        st = read_plain(p, &v);
    if (st == ZT_OK && (v.kind != PK_INT || v.i != OLDER_VERSION))
        st = zt_fail(t->ctx, ZT_EDATA, "%s: its format is not version %d", t->file, OLDER_VERSION);
    if (st == ZT_OK)
        st = read_plain(p, &v);
    if (st == ZT_OK && !is_machine(&v))
        st = zt_fail(t->ctx, ZT_EDATA, "%s: nothing is told of the machine that wrote it", t->file);
    return st;
}

/* At p->at lies the storage of this key: how many elements, then these. */
static zt_status place_older(zt_pt *t, pickle *p, const pk_value *key)
{
    char text[160];
    uint8_t count[8];
    uint64_t n = 0;
    int64_t i;
    if (key->kind != PK_TEXT || !zt_map_get(t->keys, key->text, key->n, &i))
        return zt_pk_fail(p, "a storage's key that no tensor names");
    pt_storage *s = &t->storage[i];
    zt_status st = ZT_OK;
    if (s->placed || p->end - p->at < sizeof count)
        return zt_pk_fail(p,
                          s->placed ? "a storage's key that is there twice" : "storages are cut");
    st = zt_source_read(t->in, p->at, count, sizeof count);
    for (int k = 8; k-- > 0;)
        n = n << 8 | count[k];
    s->begin = p->at + sizeof count;
    if (st == ZT_OK && (s->bytes / s->item != n || p->end - s->begin < s->bytes))
        st = zt_fail(t->ctx, ZT_EDATA,
                     "%s: storage '%s' is of %llu bytes; %llu elements are told, %llu bytes left",
                     t->file, zt_escape(text, sizeof text, s->key, strlen(s->key)),
                     (unsigned long long)s->bytes, (unsigned long long)n,
                     (unsigned long long)(p->end - s->begin));
    s->placed = true;
    if (st == ZT_OK)
        p->at = s->begin + s->bytes;
    return st;
}

static zt_status read_older(zt_pt *t, pickle *p)
{
    pk_value v;
    zt_status st = read_preamble(t, p);
    if (st == ZT_OK)
        st = read_pickle(t, p, &v);
    if (st == ZT_OK)
        st = read_plain(p, &v);
    if (st == ZT_OK && v.kind != PK_LIST)
        st = zt_pk_fail(p, "no list of storages");
    for (size_t i = 0; st == ZT_OK && i < v.list->n; i++)
        st = place_older(t, p, &v.list->item[i]);
    if (st == ZT_OK && p->at != p->end)
        st = zt_pk_fail(p, "bytes follow the last storage");
    return st;
}

zt_status zt_pt_parse_older(zt_pt *t)
{
    pickle *p = begin_pickle(t, fetch_file, t->in, zt_source_size(t->in));
    if (!p)
        return ZT_ENOMEM;
    zt_status st = read_older(t, p);
    end_pickle(t, p);
    return st;
}
