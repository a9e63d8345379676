/* SPDX-License-Identifier: MIT */
/*
 * A name is looked up once, when the mapping is made: the lease is surely open then. The
 * mapping keeps the name, since the lease may be closed and the process may be gone when
 * the name is printed.
 */
#include "import.h"

#include "base/hash.h"
#include "call.h"
#include "mount.h"
#include "proc.h"

#include <stdio.h>
#include <string.h>

struct import {
	uint64_t address;
	uint64_t size;
	size_t total; /* of `totals` */
};

struct importer {
	uint64_t process;
	struct import *list;
	size_t n;
	struct import_total *totals;
	size_t n_totals;
	UT_hash_handle hh;
};

struct imports {
	struct importer *by_process;
};

struct imports *imports_new(void)
{
	return calloc(1, sizeof(struct imports));
}

static void importer_remove(struct imports *imports, struct importer *importer)
{
	HASH_DEL(imports->by_process, importer);
	free(importer->list);
	free(importer->totals);
	free(importer);
}

struct imports *imports_free(struct imports *imports)
{
	struct importer *importer, *next;

	if (!imports)
		return NULL;
	HASH_ITER (hh, imports->by_process, importer, next)
		importer_remove(imports, importer);
	free(imports);
	return NULL;
}

static struct importer *importer_find(const struct imports *imports, uint64_t process)
{
	struct importer *importer;

	HASH_FIND(hh, imports->by_process, &process, sizeof process, importer);
	return importer;
}

static struct importer *importer_get(struct imports *imports, uint64_t process)
{
	struct importer *importer = importer_find(imports, process);

	if (importer)
		return importer;
	importer = calloc(1, sizeof *importer);
	if (!importer)
		return NULL;
	importer->process = process;
	HASH_ADD(hh, imports->by_process, process, sizeof importer->process, importer);
	return importer;
}

static struct import_total *total_find(const struct importer *importer, const char *name)
{
	for (size_t i = 0; i < importer->n_totals; i++)
		if (!strcmp(importer->totals[i].name, name))
			return &importer->totals[i];
	return NULL;
}

static struct import_total *total_get(struct importer *importer, const char *name)
{
	struct import_total *total = total_find(importer, name);

	if (total)
		return total;
	total = realloc(importer->totals, (importer->n_totals + 1) * sizeof *total);
	if (!total)
		return NULL;
	importer->totals = total;
	total += importer->n_totals++;
	*total = (struct import_total){ 0 };
	snprintf(total->name, sizeof total->name, "%s", name);
	return total;
}

static void import_add(struct imports *imports, uint64_t process, uint64_t address,
		       uint64_t size, const char *name)
{
	struct importer *importer = importer_get(imports, process);
	struct import_total *total = importer ? total_get(importer, name) : NULL;
	struct import *list;

	if (!total)
		return;
	list = realloc(importer->list, (importer->n + 1) * sizeof *list);
	if (!list)
		return;
	importer->list = list;
	list[importer->n++] =
		(struct import){ address, size, (size_t)(total - importer->totals) };
	total->n++;
	total->held += size;
	total->peak = MAX(total->peak, total->held);
}

static void import_remove(struct importer *importer, size_t i)
{
	struct import_total *total = &importer->totals[importer->list[i].total];

	total->n--;
	total->held -= importer->list[i].size;
	importer->list[i] = importer->list[--importer->n];
}

/* ---- calls ---- */

/* Memory that may be leased is mapped by cuMemMap(), or registered. */
static bool is_leasable(const struct record *record)
{
	enum op op = calls_table[record->call].op;

	return (op == OP_MAP && record->memory == MEMORY_IMPORTED) ||
	       (op == OP_REGISTER && record->memory == MEMORY_REGISTERED);
}

void imports_learn(struct imports *imports, struct mounts *mounts,
		   const struct record *record)
{
	const struct mount_user user = {
		.process = record->process,
		.pid = record->pid,
		.uid = record->uid,
		.comm = record->comm,
	};
	const struct mount_mapping mapping = {
		.address = record->args[0],
		.size = record->bytes,
		.time = record->time + record->duration,
		.imported = record->memory == MEMORY_IMPORTED,
	};
	const char *name;

	if (!(record->flags & RECORD_BOOKED) || !is_leasable(record) ||
	    proc_is_worker(record->comm))
		return;
	name = mount_lease_name(mounts, &user, &mapping, imports);
	if (name)
		import_add(imports, record->process, mapping.address, mapping.size, name);
}

void imports_unlearn(struct imports *imports, const struct record *record)
{
	struct importer *importer = importer_find(imports, record->process);
	enum op op = calls_table[record->call].op;
	uint64_t size = op == OP_UNMAP ? record->args[1] : 1;

	if (!importer)
		return;
	if (record->type == RECORD_EXIT) {
		if (record->call) /* an exec; processes_bury() forgets ended ones */
			imports_end(imports, record->process, true);
		return;
	}
	if (!(record->flags & RECORD_FREED) || (op != OP_UNMAP && op != OP_FREE))
		return;
	for (size_t i = importer->n; i-- > 0;)
		if (importer->list[i].address - record->args[0] < size)
			import_remove(importer, i);
}

void imports_end(struct imports *imports, uint64_t process, bool keep)
{
	struct importer *importer = importer_find(imports, process);

	if (!importer)
		return;
	while (importer->n)
		import_remove(importer, importer->n - 1);
	if (!keep)
		importer_remove(imports, importer);
}

/* ---- names ---- */

const char *imports_name(const struct imports *imports, uint64_t process,
			 uint64_t address)
{
	const struct importer *importer = importer_find(imports, process);

	for (size_t i = 0; importer && i < importer->n; i++)
		if (address - importer->list[i].address < importer->list[i].size)
			return importer->totals[importer->list[i].total].name;
	return NULL;
}

unsigned int imports_count(const struct imports *imports, uint64_t process,
			   const char *name)
{
	const struct importer *importer = importer_find(imports, process);
	const struct import_total *total = importer ? total_find(importer, name) : NULL;

	return total ? total->n : 0;
}

size_t imports_totals(const struct imports *imports, uint64_t process,
		      const struct import_total **ret_totals)
{
	const struct importer *importer = importer_find(imports, process);

	if (!importer)
		return 0;
	*ret_totals = importer->totals;
	return importer->n_totals;
}
