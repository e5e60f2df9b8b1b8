/* optim.h - private to lib/train: an optimizer is a row that writes its update as ops. */
#ifndef ZT_TRAIN_OPTIM_H
#define ZT_TRAIN_OPTIM_H

#include "lib/train/train.h"

enum { ZT_MAX_MOMENTS = 2 };

/* What a row is given: values of the step's program. */
typedef struct zt_update {
    zt_prog *p;
    const zt_optim *o;
    int lr, step;                 /* rank 0 */
    int moment[ZT_MAX_MOMENTS];   /* as they were */
    int made[ZT_MAX_MOMENTS];     /* the row says: as they are to be */
} zt_update;

struct zt_optimizer {
    const char *name;
    zt_optim defaults;
    /* Prefixes of the moments that it keeps, "" for none: "m" "v". */
    const char *(*moments)(const zt_optim *o);
    int (*update)(zt_update *u, int w, int g); /* the weight after a step along g */
};

#endif
