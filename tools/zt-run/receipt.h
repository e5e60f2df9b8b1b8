/* receipt.h - private to zt-run: a record of a generation that can be checked, and the check. The file: zt-formats(5).
 *
 * The tokens of an answer are divided into links of RECEIPT_EVERY. A link is the SHA-256 of
 *
 *     the link before it     32 bytes; before the first link: the SHA-256 of the head
 *     logits                 f32[vocabulary], little endian: those from which the link's first token was chosen
 *     tokens                 i32[at most RECEIPT_EVERY], little endian
 *
 * The head is what comes before the tokens: model, settings, seed and prompt, as JSON with sorted keys and no blanks. So each
 * change changes the last link; and a part can be checked alone, from the link before it.
 */
#ifndef ZT_RUN_RECEIPT_H
#define ZT_RUN_RECEIPT_H

#include "tools/zt-run/run.h"

#include <inttypes.h>

#define RECEIPT_SCHEMA "zt.receipt/1"

enum { RECEIPT_EVERY = 16, RECEIPT_LINK = ZT_DIGEST_BYTES };

/* Links as they are made, one after the other. */
typedef struct receipt_chain {
    zt_digest *digest;          /* of the link in work */
    uint8_t link[RECEIPT_LINK]; /* the last that is whole; at first the one before the first */
    int64_t every, open_count;  /* tokens of a link; of the link in work, 0: none is */
} receipt_chain;

zt_status receipt_chain_open(zt_ctx *ctx, receipt_chain *chain, int64_t every, const uint8_t before[RECEIPT_LINK]);
void receipt_chain_close(receipt_chain *chain);
/* Does the next token begin a link? Then its logits are wanted. */
bool receipt_chain_begins(const receipt_chain *chain, size_t position);
zt_status receipt_chain_logits(receipt_chain *chain, const float *logits, int64_t count);
/* Adds a token; *whole: it was the link's last. */
zt_status receipt_chain_token(receipt_chain *chain, int32_t id, bool *whole);
zt_status receipt_chain_end(receipt_chain *chain); /* the link in work becomes whole with fewer tokens */

/* The head of a receipt: of what runs, and its digest. NULL: an error. */
json_t *receipt_make_head(run_state *run, const uint8_t model[RECEIPT_LINK]);
zt_status receipt_head_digest(zt_ctx *ctx, const json_t *head, uint8_t digest[RECEIPT_LINK]);

/* A receipt as it was read. Texts are borrowed from `json`. */
typedef struct receipt_record {
    const char *name; /* of the file */
    json_t *json, *head;
    uint8_t model[RECEIPT_LINK];
    run_options options; /* the settings that it states */
    zt_str ends;         /* of options.eos */
    const char **stops;  /* of options.stop_texts */
    const json_t *form;  /* that the text was held to; NULL: none */
    bool form_differs;   /* its digest is not that of its texts */
    const char *turn;    /* the text that opens a user's turn; NULL: none does */
    const char *stop;    /* why generation ended */
    const char *isa;     /* the instruction set that it was written with */
    uint64_t seed;
    int64_t every;
    zt_ids prompt, tokens;
    uint8_t *chain; /* [link_count + 1][RECEIPT_LINK], the head's first */
    size_t link_count;
} receipt_record;

/* receipt_read.c. ZT_EDATA: it is not a receipt, with the reason; ZT_ENOTSUP: of another arithmetic. */
zt_status receipt_read(run_state *run, const char *path, receipt_record *record);
void receipt_record_free(zt_ctx *ctx, receipt_record *record);

/* receipt_form.c: what the text was held to, of the settings that were read: checked, and its texts, to be held to
 * again: a block to be freed before the record; NULL: ZT_ENOMEM. */
zt_status receipt_form_check(zt_ctx *ctx, receipt_record *record, const json_t *settings);
zt_grammar_part *receipt_form_parts(zt_ctx *ctx, const receipt_record *record, size_t *count);

/* What is made of a generation, or compared with a record. */
struct run_receipt {
    receipt_chain chain;
    json_t *head, *links;         /* --receipt: what is written at the end */
    const receipt_record *record; /* --verify */
    size_t from, limit;           /* the tokens that are checked: from, and up to where a link ends at or behind `limit` */
    const char *differs;          /* NULL: nothing does; "token", "logits", "stop" */
    size_t differs_at;            /* the first token that is not the same, from 0 */
};

#endif
