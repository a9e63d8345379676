/* SPDX-License-Identifier: MIT */
/*
 * Users who hold up the files and folders of their accounts, and users who lay out many
 * names: other users' calls end in time.
 *
 * While a process writes to a file or lists a folder, the process has the kernel's lock
 * of the file or folder. Here the buffer of the call is a page that never comes, so the
 * call ends only with the process.
 */
#include "conform.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STALLER	  1000
#define BYSTANDER 1001
#define LIMIT	  "memory=64M"

/* Apart from the machines of other tests, whose processes of root look everywhere. */
static char directory[64];

/* The folder, or the file, that the staller holds up. */
static const char *stalled;

/* Ended with the test, however that ends: or they held up whoever cleans up. */
static pid_t children[16];
static size_t n_children;

/* To look for leaks at its end, a process would wait for threads that are held up. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return 1;
}

static const char *path(const char *format, int number)
{
	static char text[192];
	const int n = snprintf(text, sizeof(text), "%s/gpumem-softgpu.", directory);

	snprintf(text + n, sizeof(text) - (size_t)n, format, number);
	return text;
}

static int remove_one(const char *file, const struct stat *stat, int flag,
		      struct FTW *ftw)
{
	(void)stat, (void)flag, (void)ftw;
	return remove(file);
}

static int faults_open(void)
{
	return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
}

static void directory_make(void)
{
	char options[128];

	snprintf(directory, sizeof(directory), "/dev/shm/softgpu-stalled-%d",
		 (int)getpid());
	snprintf(options, sizeof(options), "machine=main:directory=%s:" LIMIT, directory);
	conform_init();
	MUST(mkdir(directory, 0755) == 0 && chmod(directory, 01777) == 0);
	conform_options(options);
}

static void end_with_the_test(void)
{
	MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
}

static void (*started)(int socket);

static void child_body(int socket)
{
	end_with_the_test();
	started(socket);
}

static void start(struct child *child, void (*body)(int socket))
{
	MUST(n_children < sizeof(children) / sizeof(*children));
	started = body;
	child_start(child, child_body);
	children[n_children++] = child->pid;
}

static void directory_remove(void)
{
	for (size_t i = 0; i < n_children; i++)
		if (waitpid(children[i], NULL, WNOHANG) == 0)
			kill(children[i], SIGKILL);
	nftw(directory, remove_one, 8, FTW_PHYS | FTW_DEPTH);
	conform_fini();
}

TestSuite(stalled, .init = directory_make, .fini = directory_remove, .timeout = 60);

/* Criterion does not run the .fini of a case that is skipped. */
static void skip(const char *why)
{
	directory_remove();
	cr_skip_test("%s", why);
}

static void needs_root(void)
{
	if (geteuid() != 0)
		skip("only root can become another user");
}

static void needs_stalls(void)
{
	int fd;

	needs_root();
	fd = faults_open();
	if (fd < 0)
		skip("there is no userfaultfd(2)");
	close(fd);
}

static void needs_streams_in_children(void)
{
#ifdef __SANITIZE_THREAD__
	skip("the thread sanitizer can't follow the streams of a forked process");
#endif
}

static void become(uid_t id)
{
	MUST(setgid(id) == 0 && setuid(id) == 0);
	end_with_the_test(); /* setuid(2) has undone it */
}

/* Also while threads of the process are held up, which a zombie may have. */
static void await_state(pid_t pid, char state)
{
	char name[64], stat[256], *end = NULL;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	for (int tried = 0; !end || end[2] != state; tried++) {
		_cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC);
		ssize_t n;

		MUST(fd >= 0 && tried < 20000);
		n = read(fd, stat, sizeof(stat) - 1);
		MUST(n > 0);
		stat[n] = '\0';
		end = strrchr(stat, ')');
		MUST(end);
		usleep(1000);
	}
}

/* Returns: a page whose first use lasts; *ret_fd can be read from then on. */
static void *page_that_never_comes(int *ret_fd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	int fd = faults_open();

	MUST(fd >= 0 && at != MAP_FAILED);
	range.range.start = (uintptr_t)at;
	range.range.len = 4096;
	MUST(ioctl(fd, UFFDIO_API, &api) == 0);
	MUST(ioctl(fd, UFFDIO_REGISTER, &range) == 0);
	*ret_fd = fd;
	return at;
}

/* Waits for the descriptor of the page, and for its use. */
static void await_stall(const struct child *staller)
{
	struct pollfd page = { .events = POLLIN };

	wire_receive(staller->socket, &page.fd);
	MUST(poll(&page, 1, 20000) == 1 && page.revents == POLLIN);
	close(page.fd);
}

static void write_for_good(int socket)
{
	int faults;
	void *page = page_that_never_comes(&faults);
	int fd;

	become(STALLER);
	fd = open(stalled, O_RDWR | O_CLOEXEC);
	MUST(fd >= 0);
	wire_send(socket, 1, faults);
	(void)!write(fd, page, 8);
}

static void list_for_good(int socket)
{
	int faults;
	void *page = page_that_never_comes(&faults);
	int fd;

	become(STALLER);
	fd = open(stalled, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	wire_send(socket, 1, faults);
	syscall(SYS_getdents64, fd, page, 4096);
}

/* Waits for the lister, and keeps all others from the folder. */
static void create(int socket)
{
	char name[256];

	become(STALLER);
	snprintf(name, sizeof(name), "%s/new", stalled);
	wire_send(socket, 1, -1);
	close(open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	pause();
}

struct stall {
	struct child staller, behind;
};

static void file_stall(struct stall *stall, const char *file)
{
	stalled = strdup(file);
	start(&stall->staller, write_for_good);
	stall->behind.pid = 0;
	await_stall(&stall->staller);
}

static void folder_stall(struct stall *stall, const char *folder)
{
	stalled = strdup(folder);
	start(&stall->staller, list_for_good);
	await_stall(&stall->staller);
	start(&stall->behind, create);
	wire_receive(stall->behind.socket, NULL);
	await_state(stall->behind.pid, 'D');
}

static void stall_end(struct stall *stall)
{
	child_kill(&stall->staller);
	if (stall->behind.pid)
		child_kill(&stall->behind);
}

static void join_and_stay(int socket)
{
	conform_open();
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

static void use_and_stay(int socket)
{
	CUdeviceptr at;

	become(STALLER);
	conform_context();
	OK(cuMemAlloc_v2, &at, 20 * MIB);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

/* Another user has 20 MiB. A call may wait for a second, but no call after it. */
static void use_in_time(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	alarm(20);
	conform_context();
	handle = memory_create(40 * MIB);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2, &at, 30 * MIB);
	for (int i = 0; i < 50; i++)
		MUST(memory_free() <= 24 * MIB);
	OK(cuMemRelease, handle);
	OK(cuMemAlloc_v2, &at, 30 * MIB);
	wire_send(socket, 1, -1);
	exit(0);
}

static void use_in_time_as_a_bystander(int socket)
{
	become(BYSTANDER);
	use_in_time(socket);
}

/* A process of root makes the machine, and the staller joins it. */
struct scene {
	struct child root, member;
	struct stall stall;
};

static void scene_open(struct scene *scene)
{
	needs_stalls();
	start(&scene->root, join_and_stay);
	wire_receive(scene->root.socket, NULL);
	start(&scene->member, use_and_stay);
	wire_receive(scene->member.socket, NULL);
}

/* The calls end while the stall lasts. Of root's process a thread may be held up. */
static void scene_close(struct scene *scene)
{
	struct child root, bystander;

	start(&root, use_in_time);
	cr_expect_eq(wire_receive(root.socket, NULL), 1);
	await_state(root.pid, 'Z');
	start(&bystander, use_in_time_as_a_bystander);
	cr_expect_eq(wire_receive(bystander.socket, NULL), 1);
	child_finish(&bystander);
	stall_end(&scene->stall);
	child_finish(&root);
	child_kill(&scene->member);
	child_kill(&scene->root);
}

Test(stalled, sums_that_are_written_for_good_hold_up_nobody_else)
{
	struct scene scene;

	scene_open(&scene);
	file_stall(&scene.stall, path("main/%d-0/sums", STALLER));
	scene_close(&scene);
}

Test(stalled, folder_that_is_listed_for_good_holds_up_nobody_else)
{
	struct scene scene;

	scene_open(&scene);
	folder_stall(&scene.stall, path("main/%d-0", STALLER));
	scene_close(&scene);
}

/* The name of the sums is not at hand: to look it up waits for the folder. */
Test(stalled, folder_without_sums_holds_up_nobody_else)
{
	struct scene scene;

	scene_open(&scene);
	MUST(unlink(path("main/%d-0/sums", STALLER)) == 0);
	folder_stall(&scene.stall, path("main/%d-0", STALLER));
	scene_close(&scene);
}

static void start_in_time(int socket)
{
	alarm(20);
	conform_context();
	memory_create(40 * MIB);
	wire_send(socket, 1, -1);
	exit(0);
}

/* The staller makes a machine with an account that nobody uses. */
static void root_starts_in_time(const char *format)
{
	struct stall stall;
	struct child root;

	needs_stalls();
	MUST(mkdir(path("left", 0), 0777) == 0);
	MUST(mkdir(path("left/%d-0", STALLER), 0711) == 0);
	MUST(chown(path("left/%d-0", STALLER), STALLER, STALLER) == 0);
	MUST(chown(path("left", 0), STALLER, STALLER) == 0);
	folder_stall(&stall, path(format, STALLER));
	start(&root, start_in_time);
	cr_expect_eq(wire_receive(root.socket, NULL), 1);
	await_state(root.pid, 'Z');
	stall_end(&stall);
	child_finish(&root);
}

Test(stalled, remains_in_a_folder_that_is_listed_hold_up_no_start_of_root)
{
	root_starts_in_time("left/%d-0");
}

Test(stalled, a_users_machine_that_is_listed_holds_up_no_start_of_root)
{
	root_starts_in_time("left");
}

static void claim(int n, uint64_t bytes)
{
	char name[32];
	int folder, fd;

	snprintf(name, sizeof(name), "main/%%d-%d", n);
	MUST(mkdir(path(name, STALLER), 0711) == 0);
	folder = open(path(name, STALLER), O_PATH | O_CLOEXEC);
	fd = openat(folder, "sums", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	MUST(fd >= 0 && fchmod(fd, 0644) == 0);
	/* Of the first device; the sums of others and of managed memory follow. */
	MUST(write(fd, &bytes, sizeof(bytes)) == sizeof(bytes) &&
	     ftruncate(fd, 18 * sizeof(bytes)) == 0);
	close(fd);
	close(folder);
}

static void claim_often(int socket)
{
	become(STALLER);
	for (int n = 0; n < 40; n++)
		claim(n, MIB);
	wire_send(socket, 1, -1);
}

static void look(int socket)
{
	conform_context();
	wire_send(socket, memory_free() / MIB, -1);
}

static void look_as_a_bystander(int socket)
{
	become(BYSTANDER);
	look(socket);
}

Test(stalled, of_one_user_sixteen_accounts_are_looked_at)
{
	struct child root, claimer, looker;

	needs_root();
	start(&root, join_and_stay);
	wire_receive(root.socket, NULL);
	start(&claimer, claim_often);
	wire_receive(claimer.socket, NULL);
	child_finish(&claimer);
	start(&looker, look_as_a_bystander);
	cr_assert_eq(wire_receive(looker.socket, NULL), 48);
	child_finish(&looker);
	child_kill(&root);
}

/* Folders with names of another user's accounts. */
static void take_names(int socket)
{
	char name[32];

	become(STALLER);
	for (int n = 0; n < 1000; n++) {
		snprintf(name, sizeof(name), "main/%%d-%d", n);
		MUST(mkdir(path(name, BYSTANDER), 0755) == 0);
	}
	wire_send(socket, 1, -1);
}

static void use_as_a_bystander(int socket)
{
	CUdeviceptr at;

	become(BYSTANDER);
	conform_context();
	OK(cuMemAlloc_v2, &at, 20 * MIB);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

Test(stalled, names_that_somebody_else_has_taken_keep_nobody_out)
{
	struct child root, taker, first, second, looker;

	needs_root();
	start(&root, join_and_stay);
	wire_receive(root.socket, NULL);
	start(&taker, take_names);
	wire_receive(taker.socket, NULL);
	child_finish(&taker);
	start(&first, use_as_a_bystander);
	wire_receive(first.socket, NULL);
	start(&second, use_as_a_bystander);
	wire_receive(second.socket, NULL);
	start(&looker, look);
	cr_assert_eq(wire_receive(looker.socket, NULL), 24);
	child_finish(&looker);
	/* Both have one account: the second can count what the first had. */
	child_kill(&first);
	start(&looker, look_as_a_bystander);
	cr_assert_eq(wire_receive(looker.socket, NULL), 44);
	child_finish(&looker);
	child_kill(&second);
	child_kill(&root);
}

static void managed_20_mib(int socket)
{
	CUdeviceptr at;

	conform_context();
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
	OK(cuMemAllocManaged, &at, 20 * MIB, CU_MEM_ATTACH_GLOBAL);
	OK(cuMemPrefetchAsync, at, 20 * MIB, 0, NULL);
	OK(cuCtxSynchronize);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
	memory_create(40 * MIB);
	wire_send(socket, 1, -1);
	wire_receive(socket, NULL);
}

static void managed_20_mib_as_a_bystander(int socket)
{
	become(BYSTANDER);
	managed_20_mib(socket);
}

static void step(const struct child *child)
{
	wire_send(child->socket, 0, -1);
	cr_assert_eq(wire_receive(child->socket, NULL), 1);
}

/* Returns: MiB of the first device in use, as told by the sums of a user. */
static int used_by(int user)
{
	uint64_t used = 0;
	int fd = open(path("main/%d-0/sums", user), O_RDONLY | O_CLOEXEC);

	MUST(fd >= 0 && read(fd, &used, sizeof(used)) == sizeof(used));
	close(fd);
	return (int)(used / MIB);
}

/* The pages of both users are in one order: 16 MiB of the older user's go. */
static void oldest_goes_first(bool is_roots_older, int roots, int bystanders)
{
	struct child root, bystander;

	needs_root();
	needs_streams_in_children();
	start(&root, managed_20_mib);
	wire_receive(root.socket, NULL);
	start(&bystander, managed_20_mib_as_a_bystander);
	wire_receive(bystander.socket, NULL);
	step(is_roots_older ? &root : &bystander);
	usleep(50000); /* the clock of moves is coarse */
	step(is_roots_older ? &bystander : &root);
	step(&root);
	cr_expect_eq(used_by(0), roots);
	cr_expect_eq(used_by(BYSTANDER), bystanders);
	child_kill(&bystander);
	child_kill(&root);
}

Test(stalled, older_pages_of_another_user_make_room)
{
	oldest_goes_first(false, 60, 4);
}

Test(stalled, older_pages_of_root_make_room_before_those_of_another_user)
{
	oldest_goes_first(true, 44, 20);
}
