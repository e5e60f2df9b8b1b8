/* safetensors_parse.c - owns reading a safetensors header: its tensors, its metadata, and whether
 * they cover the data.
 *
 * The header is walked member by member, so that memory follows the tensors there are; an entry is
 * safetensors_entry.c's. Beyond what the reference reader refuses, we refuse names that come
 * twice. */
#include "lib/base/foreign.h"
#include "lib/io/fault.h"
#include "lib/io/json.h"
#include "lib/io/safetensors_file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100000000 }; /* bytes: the format's own bound */

/* ---- tensors --------------------------------------------------------------------------------- */

/* Room for all that a header of n bytes can tell of: a list that grew with them would be copied and
 * its pages be cleared twice over. What stays unused of it is never touched. */
static zt_status make_room(zt_safetensors *s, size_t n)
{
    static const char least[] = "\"\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,0]},";
    int64_t most = s->n_tensors + (int64_t)(n / (sizeof least - 1)) + 1;
    if (most <= s->room)
        return ZT_OK;
    most = most < 2 * s->room ? 2 * s->room : most; /* shard after shard */
    st_tensor *list = zt_realloc(s->ctx, s->tensor, (size_t)most * sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    s->tensor = list;
    s->room = most;
    return ZT_OK;
}

/* One that is unfit, and was told, is left out. */
static zt_status read_tensor(const st_parser *p, const char *name, const char *text, size_t n)
{
    zt_safetensors *s = p->s;
    st_tensor *t = &s->tensor[s->n_tensors];
    *t = (st_tensor){.e = {.name = zt_arena_strndup(s->texts, name, strlen(name))}};
    zt_status st = t->e.name ? zt_st_entry(p, text, n, t) : ZT_ENOMEM;
    if (st == ZT_OK)
        s->n_tensors++;
    return st == ZT_ENOENT ? ZT_OK : st;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* The decoded text, in the arena: a long one that needs no decoding is not held twice. */
static zt_status keep_text(const st_parser *p, const char *text, size_t n, st_meta *m)
{
    zt_str value;
    zt_status s = ZT_OK;
    zt_str_init(&value, p->s->ctx);
    if (zt_json_is_plain(text, n)) {
        m->n = n - 2;
        m->value = zt_arena_strndup(p->s->texts, text + 1, m->n);
    } else {
        s = zt_json_string(p->s->ctx, p->file, text, n, &value);
        m->n = value.len;
        m->value = s == ZT_OK ? zt_arena_strndup(p->s->texts, value.data, value.len) : NULL;
    }
    zt_str_fini(&value);
    return s == ZT_OK && !m->value ? ZT_ENOMEM : s;
}

static zt_status read_meta(void *user, const char *key, const char *text, size_t n)
{
    st_parser *p = user;
    zt_safetensors *s = p->s;
    st_meta *list = zt_st_room(s->ctx, s->meta, s->n_meta, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    s->meta = list;
    st_meta *m = &list[s->n_meta];
    zt_status st = keep_text(p, text, n, m);
    m->key = st == ZT_OK ? zt_arena_strndup(s->texts, key, strlen(key)) : NULL;
    if (!m->key)
        return st == ZT_OK ? ZT_ENOMEM : st;
    s->n_meta++;
    return ZT_OK;
}

static zt_status check_meta(const st_parser *p)
{
    const zt_safetensors *s = p->s;
    char text[160];
    zt_map *keys = zt_map_new(s->ctx, (size_t)s->n_meta);
    zt_status st = keys ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = p->first_meta; st == ZT_OK && i < s->n_meta; i++) {
        const char *key = s->meta[i].key;
        st = zt_map_get(keys, key, strlen(key), NULL)
                 ? zt_fail(s->ctx, ZT_EDATA, "%s: __metadata__ '%s' is there twice", p->file,
                           zt_escape(text, sizeof text, key, strlen(key)))
                 : zt_map_put(keys, key, strlen(key), i);
    }
    zt_map_free(keys);
    return st;
}

/* ---- the header ------------------------------------------------------------------------------ */

static zt_status read_member(void *user, const char *key, const char *text, size_t n)
{
    st_parser *p = user;
    if (strcmp(key, "__metadata__") != 0)
        return read_tensor(p, key, text, n);
    if (p->has_meta)
        return zt_fail(p->s->ctx, ZT_EDATA, "%s: '__metadata__' is there twice", p->file);
    p->has_meta = true;
    if (n == 4 && memcmp(text, "null", 4) == 0) /* as good as none */
        return ZT_OK;
    zt_status st = zt_json_members(p->s->ctx, p->file, text, n, read_meta, p);
    return st == ZT_OK ? check_meta(p) : st;
}

/* By place; what is empty before what begins at the same byte. */
static int by_offset(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->e.bytes > y->e.bytes) - (x->e.bytes < y->e.bytes);
}

/* Writers put them in that order: a million are not sorted, with a copy of all, for nothing. */
static void sort(st_tensor *list, int64_t n)
{
    int64_t i = 1;
    while (i < n && by_offset(&list[i - 1], &list[i]) <= 0)
        i++;
    if (i < n)
        qsort(list, (size_t)n, sizeof *list, by_offset);
}

/* The tensors from `first` on cover the data, each beginning where the one before it ends. */
static zt_status check_layout(const st_parser *p, int64_t first)
{
    zt_safetensors *s = p->s;
    uint64_t end = p->data;
    if (s->n_tensors > first)
        sort(s->tensor + first, s->n_tensors - first);
    for (int64_t i = first; i < s->n_tensors; i++) {
        const st_tensor *t = &s->tensor[i];
        zt_status st = ZT_OK;
        if (t->offset != end)
            st = zt_st_amiss(p, t->e.name,
                             "data from byte %llu, but what is before it ends at %llu",
                             (unsigned long long)(t->offset - p->data),
                             (unsigned long long)(end - p->data));
        if (st != ZT_OK)
            return st;
        end = t->offset + t->e.bytes;
    }
    if (end == p->data + p->data_bytes || p->streams)
        return ZT_OK;
    return zt_faults_tell(s->ctx, "%s: %llu bytes of data, %llu belong to tensors", p->file,
                    (unsigned long long)p->data_bytes, (unsigned long long)(end - p->data));
}

/* The n bytes of the header. Of a stream there is never more memory than twice what came. */
static zt_status read_text(const st_parser *p, const zt_source *in, size_t n, char **text)
{
    enum { FIRST = 1 << 16 };
    size_t have = 0, room = zt_source_streams(in) && n > FIRST ? FIRST : n;
    for (;; room = n - room < room ? n : 2 * room) {
        char *more = zt_realloc(p->s->ctx, *text, room);
        if (!more)
            return ZT_ENOMEM;
        *text = more;
        zt_status st = zt_source_read(in, 8 + have, more + have, room - have);
        if (st != ZT_OK || room == n)
            return st;
        have = room;
    }
}

/* The format asks for '{'; the reference reader takes JSON's white space before it. */
static bool begins_object(char c) { return c == '{' || c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static zt_status read_header(st_parser *p, const zt_source *in, size_t n)
{
    zt_ctx *ctx = p->s->ctx;
    int64_t first = p->s->n_tensors;
    char *text = NULL;
    zt_status st = read_text(p, in, n, &text);
    if (st == ZT_OK && !begins_object(text[0]))
        st = zt_fail(ctx, ZT_EDATA, "%s: the header does not begin with '{'", p->file);
    if (st == ZT_OK)
        st = make_room(p->s, n);
    if (st == ZT_OK)
        st = zt_json_members(ctx, p->file, text, n, read_member, p);
    zt_free(ctx, text);
    return st == ZT_OK ? check_layout(p, first) : st;
}

static uint64_t header_length(const unsigned char b[8])
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | b[i];
    return n;
}

bool zt_safetensors_sniff(const void *bytes, size_t n, uint64_t size)
{
    const unsigned char *b = bytes;
    if (n < 9 || !begins_object((char)b[8]))
        return false;
    uint64_t header = header_length(b);
    return header <= MAX_HEADER && header <= size - 8;
}

/* Where the first bytes are no length: do they say what else it is? */
static zt_status check_foreign(const st_parser *p, const zt_source *in)
{
    char head[ZT_FOREIGN_HEAD];
    size_t n = 0;
    zt_status st = zt_source_streams(in) ? ZT_OK
                                         : zt_source_read_some(in, 0, head, sizeof head, 0, &n);
    return st == ZT_OK ? zt_foreign_fail(p->s->ctx, p->file, head, n) : st;
}

zt_status zt_st_parse(zt_safetensors *s)
{
    const zt_source *in = s->shard[s->n_shards - 1];
    uint64_t size = zt_source_size(in);
    unsigned char b[8];
    st_parser p = {.s = s, .file = zt_source_name(in), .streams = zt_source_streams(in),
                .first_meta = s->n_meta};
    if (size < 8 + 2)
        return zt_fail(s->ctx, ZT_EDATA, "%s: a file of %llu bytes, too short for a header", p.file,
                       (unsigned long long)size);
    zt_status st = zt_source_read(in, 0, b, 8);
    if (st != ZT_OK)
        return st;
    uint64_t n = header_length(b);
    if (n < 2 || n > MAX_HEADER || n > size - 8) {
        st = check_foreign(&p, in);
        return st != ZT_OK ? st : zt_fail(s->ctx, ZT_EDATA,
                       "%s: a header of %llu bytes in a file of %llu (%d are allowed)", p.file,
                       (unsigned long long)n, (unsigned long long)size, MAX_HEADER);
    }
    p.data = s->data = 8 + n;
    p.data_bytes = size - p.data;
    return read_header(&p, in, (size_t)n);
}
