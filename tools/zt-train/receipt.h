/* receipt.h - private to zt-train: a record of a run that can be checked by training again. Functions with NULL for the receipt do
 * nothing. */
#ifndef ZT_TRAIN_RECEIPT_H
#define ZT_TRAIN_RECEIPT_H

#include "tools/zt-train/train_tool.h"

typedef struct train_receipt train_receipt;

/* What of a run its trainer does not know. */
typedef struct train_run_facts {
    const char *options;  /* that decide the result: batches, order, schedule */
    int64_t accumulate;   /* micro-batches of a batch */
    const zt_bytes *data; /* [data_count]: the samples, or the text */
    int data_count;
} train_run_facts;

/* Before the first step. record NULL: of --receipt; else the file of --verify, which is read and compared as far as the run has
 * begun. NULL: ZT_EDATA, it is not a receipt; ZT_ENOTSUP, of another arithmetic, or libcrypto is missing. */
train_receipt *train_receipt_begin(zt_cli *cli, zt_trainer *trainer, const train_run_facts *facts, const char *record);
void train_receipt_free(train_receipt *receipt);
/* Is it another run already? The rest need not be trained. */
bool train_receipt_differs(const train_receipt *receipt);
/* A checkpoint was loaded, of a run after so many steps: its states have to be those of the record. ZT_EUSAGE: they have no link. */
zt_status train_receipt_resumed(train_receipt *receipt, uint64_t steps);
zt_status train_receipt_step(train_receipt *receipt, uint64_t steps); /* so many are done */
/* The run ended after so many steps, or differs: the file is written, or the result printed. */
zt_status train_receipt_end(train_receipt *receipt, uint64_t steps, const char *path);

#endif
