/* pack.c - block types in the form that the inner loops want. */
#include "lib/engine/cuda/cu.h"

const zt_cu_pack zt_cu_packs[] = {{.pack = NULL}};
