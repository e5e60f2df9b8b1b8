/* draft_words.c - a text of one vocabulary in the tokens of another. */
#include "lib/llm/draft_words.h"
#include "lib/llm/vocab/vocab.h"

#include <string.h>

enum {
    TAIL = 16,    /* tokens at the end of a text that are tokenized again with what follows them, at most */
    UNKNOWN = 100 /* of so many ordinary tokens of the target one may lack a counterpart */
};

struct zt_draft_words {
    zt_ctx *ctx;
    const zt_vocab *target, *draft;
    int64_t limit;
    int32_t bos;        /* of the draft's texts; -1: they begin without one */
    int32_t *to_draft;  /* [target tokens]: the counterpart, -1: none */
    int32_t *to_target; /* [draft tokens] */
    bool map;
    zt_ids seen; /* the text, in the target's tokens, from `start` on */
    size_t start;
    zt_ids ids;    /* and in the draft's */
    zt_ids ends;   /* of each token of `seen`: how many of `ids` there are behind it, or bytes of `bytes` */
    zt_str bytes;  /* without a map: the text, */
    zt_ids pieces; /* and where in it each of `ids` ends */
    zt_str scratch;
};

/* ---- counterparts ---------------------------------------------------------------------------- */

/* Is it a token of ordinary text? */
static bool is_ordinary(const zt_vocab *vocab, int32_t id)
{
    int type = zt_vocab_type(vocab, id);
    return type == ZT_TOK_NORMAL || type == ZT_TOK_BYTE || type == ZT_TOK_USER;
}

static bool same_text(const zt_vocab *a, int32_t a_id, const zt_vocab *b, int32_t b_id)
{
    return a->text[a_id].n == b->text[b_id].n && memcmp(a->text[a_id].data, b->text[b_id].data, a->text[a_id].n) == 0;
}

/* The token of `to` with the text of one of `from`, that of the same id where it may be. */
static int32_t counterpart(const zt_vocab *from, int32_t id, const zt_vocab *to)
{
    if (from->text[id].n == 0 || zt_vocab_type(from, id) == ZT_TOK_UNUSED) return -1;
    if (id < to->token_count && same_text(from, id, to, id)) return id;
    return zt_vocab_find(to, from->text[id].data, from->text[id].n);
}

/* Texts of tokens mean the same where both vocabularies are of one kind. */
static zt_status find_counterparts(zt_draft_words *words)
{
    const zt_vocab *target = words->target, *draft = words->draft;
    int64_t ordinary = 0, lacking = 0;
    words->to_draft = zt_alloc_array(words->ctx, (size_t)target->token_count, sizeof *words->to_draft);
    words->to_target = zt_alloc_array(words->ctx, (size_t)draft->token_count, sizeof *words->to_target);
    if (!words->to_draft || !words->to_target) return ZT_ENOMEM;
    memset(words->to_target, -1, (size_t)draft->token_count * sizeof *words->to_target);
    bool alike = target->kind == draft->kind && target->byte_level == draft->byte_level;
    for (int32_t id = 0; id < target->token_count; id++) {
        int32_t found = words->to_draft[id] = alike || !is_ordinary(target, id) ? counterpart(target, id, draft) : -1;
        if (found >= 0 && id < words->limit) words->to_target[found] = id;
        ordinary += is_ordinary(target, id);
        lacking += is_ordinary(target, id) && found < 0;
    }
    words->map = alike && lacking * UNKNOWN <= ordinary;
    return ZT_OK;
}

/* BOS, if the draft's texts begin with it. */
static int32_t first_token(const zt_vocab *draft)
{
    zt_ids ids = {0};
    int32_t bos = -1;
    if (zt_vocab_bos(draft) >= 0 && zt_vocab_encode(draft, "a", 1, ZT_TOK_BOS_RULE, &ids) == ZT_OK && ids.count &&
        ids.id[0] == zt_vocab_bos(draft))
        bos = ids.id[0];
    zt_ids_fini(draft->ctx, &ids);
    return bos;
}

zt_draft_words *zt_draft_words_open(zt_ctx *ctx, const zt_vocab *target, const zt_vocab *draft, int64_t limit)
{
    zt_draft_words *words = zt_calloc(ctx, 1, sizeof *words);
    if (!words) return NULL;
    *words = (zt_draft_words){.ctx = ctx, .target = target, .draft = draft, .limit = limit, .bos = first_token(draft)};
    zt_str_init(&words->bytes, ctx);
    zt_str_init(&words->scratch, ctx);
    if (find_counterparts(words) == ZT_OK) return words;
    zt_draft_words_free(words);
    return NULL;
}

void zt_draft_words_free(zt_draft_words *words)
{
    if (!words) return;
    zt_ids *const lists[] = {&words->seen, &words->ids, &words->ends, &words->pieces};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) zt_ids_fini(words->ctx, lists[i]);
    zt_str_fini(&words->bytes);
    zt_str_fini(&words->scratch);
    zt_free(words->ctx, words->to_draft);
    zt_free(words->ctx, words->to_target);
    zt_free(words->ctx, words);
}

bool zt_draft_words_map(const zt_draft_words *words) { return words->map; }

/* ---- bytes of tokens ------------------------------------------------------------------------- */

/* Appends the bytes of a token; of a control token its text, where the draft has one of the same text. */
static zt_status put_bytes(const zt_draft_words *words, int32_t id, bool first, zt_str *out)
{
    const zt_vocab *target = words->target;
    if (id < 0 || id >= target->token_count) return ZT_OK;
    if (!zt_vocab_is_control(target, id)) return zt_vocab_decode(target, id, false, first, out);
    return words->to_draft[id] >= 0 && id != target->bos ? zt_str_put(out, target->text[id].data, target->text[id].n) : ZT_OK;
}

/* Tokenizes text that is not the beginning: a vocabulary that puts a space before each text gets the text without its own. */
static zt_status encode_behind(const zt_vocab *vocab, const char *text, size_t size, bool begins, zt_ids *out)
{
    size_t skipped = !begins && vocab->add_space && size && text[0] == ' ';
    return zt_vocab_encode(vocab, text + skipped, size - skipped, ZT_TOK_SPECIAL, out);
}

/* Bytes of a token. */
static size_t token_bytes(zt_draft_words *words, const zt_vocab *vocab, int32_t id, bool first)
{
    zt_str_clear(&words->scratch);
    return zt_vocab_decode(vocab, id, true, first, &words->scratch) == ZT_OK ? words->scratch.len : 0;
}

static bool is_blank(char letter) { return letter == ' ' || letter == '\n' || letter == '\t'; }

/* ---- the text -------------------------------------------------------------------------------- */

/* Forgets what differs, or all of it where the text begins elsewhere. */
static void forget_text(zt_draft_words *words, const int32_t *ids, size_t start, size_t count)
{
    size_t same = 0;
    if (start == words->start)
        while (same < words->seen.count && start + same < count && words->seen.id[same] == ids[start + same]) same++;
    int32_t end = same ? words->ends.id[same - 1] : 0;
    words->start = start;
    words->seen.count = words->ends.count = same;
    if (words->map) {
        words->ids.count = (size_t)end;
        return;
    }
    words->bytes.len = (size_t)end;
    while (words->pieces.count && (same == 0 || words->pieces.id[words->pieces.count - 1] > end)) words->pieces.count--;
    words->ids.count = words->pieces.count;
}

static zt_status put_counterpart(zt_draft_words *words, int32_t id)
{
    int32_t found = id >= 0 && id < words->target->token_count ? words->to_draft[id] : -1;
    bool first = words->seen.count == 0;
    if (first && words->bos >= 0 && found != words->bos) {
        zt_status status = zt_ids_push(words->ctx, &words->ids, words->bos);
        if (status) return status;
    }
    if (found >= 0) return zt_ids_push(words->ctx, &words->ids, found);
    zt_str_clear(&words->scratch);
    zt_status status = put_bytes(words, id, first, &words->scratch);
    return status || !words->scratch.len
               ? status
               : encode_behind(words->draft, words->scratch.data, words->scratch.len, first, &words->ids);
}

/* Where the end of the text begins that is tokenized again: behind a piece, before a blank. */
static size_t cut_pieces(zt_draft_words *words)
{
    size_t least = words->bos >= 0, count = words->pieces.count, cut = 0;
    while (count > least && cut < TAIL) {
        count--;
        cut++;
        size_t from = count ? (size_t)words->pieces.id[count - 1] : 0;
        if (from < words->bytes.len && is_blank(words->bytes.data[from])) break;
    }
    words->pieces.count = words->ids.count = count;
    return count ? (size_t)words->pieces.id[count - 1] : 0;
}

/* Tokenizes the bytes behind the pieces. */
static zt_status put_pieces(zt_draft_words *words, size_t from)
{
    size_t at = from, size = words->bytes.len, known = words->ids.count;
    zt_status status = ZT_OK;
    if (known == 0 && words->bos >= 0) {
        status = zt_ids_push(words->ctx, &words->ids, words->bos);
        if (!status) status = zt_ids_push(words->ctx, &words->pieces, 0);
        known = 1;
    }
    if (!status && size > from)
        status = encode_behind(words->draft, words->bytes.data + from, size - from, from == 0, &words->ids);
    for (size_t i = known; i < words->ids.count && !status; i++) {
        at += token_bytes(words, words->draft, words->ids.id[i], from == 0 && i == known);
        if (at > size || i + 1 == words->ids.count) at = size;
        status = zt_ids_push(words->ctx, &words->pieces, (int32_t)at);
    }
    return status;
}

const zt_ids *zt_draft_words_follow(zt_draft_words *words, const int32_t *ids, size_t start, size_t count)
{
    zt_status status = ZT_OK;
    forget_text(words, ids, start, count);
    bool longer = start + words->seen.count < count;
    size_t from = !words->map && longer ? cut_pieces(words) : 0;
    for (size_t i = start + words->seen.count; i < count && !status; i++) {
        status = words->map ? put_counterpart(words, ids[i]) : put_bytes(words, ids[i], words->bytes.len == 0, &words->bytes);
        size_t end = words->map ? words->ids.count : words->bytes.len;
        if (!status) status = zt_ids_push(words->ctx, &words->ends, (int32_t)end);
        if (!status) status = zt_ids_push(words->ctx, &words->seen, ids[i]);
    }
    if (!status && !words->map && longer) status = put_pieces(words, from);
    if (!status) return &words->ids;
    words->seen.count = words->ends.count = words->ids.count = words->pieces.count = 0;
    zt_str_clear(&words->bytes);
    return NULL;
}

/* ---- drafts ---------------------------------------------------------------------------------- */

static size_t map_back(const zt_draft_words *words, const int32_t *drafted, size_t count, size_t most, int32_t *out, size_t *last)
{
    size_t made = 0;
    while (made < count && made < most && words->to_target[drafted[made]] >= 0) {
        out[made] = words->to_target[drafted[made]];
        last[made] = made;
        made++;
    }
    return made;
}

/* Where the last tokens of the text begin that are tokenized with the draft: at a blank, if one is near. */
static size_t tail_start(const zt_draft_words *words)
{
    size_t at = words->bytes.len;
    for (size_t back = 1; back <= TAIL && back <= words->ends.count; back++) {
        size_t token = words->ends.count - back;
        at = token ? (size_t)words->ends.id[token - 1] : 0;
        if (at < words->bytes.len && is_blank(words->bytes.data[at])) break;
    }
    return at;
}

/* The tokens of `ids` that lie behind the first `tail` bytes. `ends`: where each of `count` drafted tokens ends. */
static size_t take_behind(zt_draft_words *words, const zt_ids *ids, size_t tail, const zt_ids *ends, size_t most, bool begins,
                          int32_t *out, size_t *last)
{
    size_t at = 0, made = 0, drafted = 0;
    for (size_t i = 0; i < ids->count && made < most; i++) {
        bool behind = at == tail;
        if (at > tail && made == 0) return 0; /* a token is partly text, partly draft */
        at += token_bytes(words, words->target, ids->id[i], begins && i == 0);
        if (!behind && made == 0) continue;
        if (ids->id[i] >= words->limit) break;
        while (drafted + 1 < ends->count && (size_t)ends->id[drafted] < at) drafted++;
        last[made] = drafted;
        out[made++] = ids->id[i];
    }
    return made;
}

static size_t text_back(zt_draft_words *words, const int32_t *drafted, size_t count, size_t most, int32_t *out, size_t *last)
{
    zt_ids again = {0}, ends = {0};
    zt_str text;
    size_t from = tail_start(words), tail = words->bytes.len - from, made = 0;
    zt_str_init(&text, words->ctx);
    zt_status status = tail ? zt_str_put(&text, words->bytes.data + from, tail) : ZT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = zt_vocab_decode(words->draft, drafted[i], true, false, &text);
        if (!status) status = zt_ids_push(words->ctx, &ends, (int32_t)text.len);
    }
    if (!status && text.len > tail) status = encode_behind(words->target, text.data, text.len, from == 0, &again);
    if (!status) made = take_behind(words, &again, tail, &ends, most, from == 0, out, last);
    zt_str_fini(&text);
    zt_ids_fini(words->ctx, &ends);
    zt_ids_fini(words->ctx, &again);
    return made;
}

size_t zt_draft_words_back(zt_draft_words *words, const int32_t *drafted, size_t count, size_t most, int32_t *out, size_t *last)
{
    return words->map ? map_back(words, drafted, count, most, out, last) : text_back(words, drafted, count, most, out, last);
}
