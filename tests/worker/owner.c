/* SPDX-License-Identifier: MIT */
/* An owner's worker. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "scene.h"

static bool status_has(pid_t pid, const char *line)
{
	char path[64], text[4096] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	cr_assert(ne(ptr, file, NULL));
	cr_assert(gt(sz, fread(text, 1, sizeof(text) - 1, file), 0));
	fclose(file);
	return strstr(text, line);
}

Test(worker, owners_worker_runs_as_its_owner)
{
	struct scene scene;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("only root can become somebody else");
	settings_set("");
	scene_start_as(&scene,
		       (struct channel_config){ .name = "1234", .uid = 1234, .gid = 1235 });
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	pid = channel_pid(scene.fixture.channel);
	cr_assert(status_has(pid, "\nUid:\t1234\t1234\t1234\t1234\n"));
	cr_assert(status_has(pid, "\nGid:\t1235\t1235\t1235\t1235\n"));
	cr_assert(status_has(pid, "\nGroups:\t1235 \n"));
	cr_assert(status_has(pid, "\nNoNewPrivs:\t1\n"));
	cr_assert(eq(int, put(&scene, 0, BASE, "x", 1), 0));
	scene_stop(&scene);
}

Test(worker, owners_worker_makes_contexts_at_the_first_use)
{
	struct scene scene;

	settings_set("");
	scene_start_as(&scene, (struct channel_config){
				       .name = "own", .uid = getuid(), .gid = getgid() });
	cr_assert(eq(int, map(&scene, 0, BASE, CHUNK, 0), 0));
	if (scene.n_devices > 1) {
		cr_assert(eq(int, map(&scene, 1, BASE_OF(1), CHUNK, 0), 0));
		cr_assert(eq(int, put(&scene, 1, BASE_OF(1), "x", 1), 0));
	}
	scene_stop(&scene);
}
