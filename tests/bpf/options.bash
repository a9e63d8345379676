#!/bin/bash
# The command line: spellings of options, and error sentences.
. "${BASH_SOURCE%/*}/lib.bash"

calls="$prepare
cuMemAlloc_v2 &a 4096
cuMemAlloc_v2 &b 0x1000000000000"

test_letters_can_stand_together()
{
	local none
	none=$("$GPUMEM_TRACE" -sv --library "$L" -d0.01 2>"$T/err")
	like "$none" '^TIME'
	like "$(<"$T/err")" "probing $L"
	"$GPUMEM_TRACE" -svd 0.01 --library "$L" >"$T/out" 2>"$T/err"
	like "$(<"$T/err")" "probing $L"
}

test_each_option_has_a_long_name()
{
	trace --groups mem --stacks --user 0 --duration 60 --failed <<<"$calls"
	is "$(grep -c ' cuMemAlloc_v2 ' "$T/out")" 1
	like "$(<"$T/out")" 'caller_call|\(caller'
	refused 'there is no process 4194304$' "$GPUMEM_TRACE" --library "$L" --pid 4194304
}

test_the_start_of_a_long_name_is_enough_where_it_can_be_no_other()
{
	trace --gr=mem --fail --lib "$L" --js <<<"$calls"
	check <<<'same([row["call"] for row in E], ["cuMemAlloc_v2"])'
	refused "'--s' can be --stacks, --size or --summary$" "$GPUMEM_TRACE" --s
}

test_the_seconds_of_a_mode_stand_behind_it_or_not()
{
	trace --leaks=30 <<<"$calls"
	trace --leaks 30 --failed <<<"$calls"
	trace --leaks --failed <<<"$calls"
}

test_help_fits_a_terminal_and_has_examples()
{
	"$GPUMEM_TRACE" --help >"$T/out"
	like "$(head -n 1 "$T/out")" '^usage: gpumem-trace \[OPTION\]... \[-- COMMAND'
	is "$(awk 'length > 80' "$T/out")" ''
	is "$(grep -c '^    sudo gpumem-trace ' "$T/out")" 5
	like "$(grep -- --pid "$T/out")" '^  -p, --pid PID,... '
	like "$(grep -- '  --leaks' "$T/out")" '^ +--leaks \[SECONDS\] '
	is "$("$GPUMEM_TRACE" -h)" "$(<"$T/out")"
	like "$("$GPUMEM_TRACE" --version)" '^gpumem-trace [0-9.]+$'
	like "$("$GPUMEM_TRACE" -V)" '^gpumem-trace [0-9.]+$'
}

test_operands_are_refused_and_the_way_to_run_them_is_said()
{
	refused "'true' is not an option: to run a command, write -- true$" "$GPUMEM_TRACE" true
	refused "'true' is not an option: to run a command" "$GPUMEM_TRACE" -p 1 true
	refused "'true' is not an option: to run a command" "$GPUMEM_TRACE" --leaks 5 true
	refused "'-' is not an option" "$GPUMEM_TRACE" -
	refused "'abc' is not a number of seconds: to run a command, write -- abc$" "$GPUMEM_TRACE" --top abc
	refused '-- needs a command behind it$' "$GPUMEM_TRACE" --summary --
	refused '--pid and a command exclude each other' "$GPUMEM_TRACE" -p 1 -- true
}

test_bad_options_are_said()
{
	refused "there is no option '--bogus': --help lists them" "$GPUMEM_TRACE" --bogus
	refused "there is no option '-x': --help lists them" "$GPUMEM_TRACE" -sx
	refused "'--size' needs MIN" "$GPUMEM_TRACE" --size
	refused "'-e' needs GROUP" "$GPUMEM_TRACE" -se
	refused "'--json' takes no value" "$GPUMEM_TRACE" --json=1
	refused '--summary, --leaks, --top, --json and --chrome exclude each other' "$GPUMEM_TRACE" --json --top
}

test_bad_values_are_said_with_what_is_allowed()
{
	refused "there is no group 'memory': there are mem, managed, vmm, pool, copy, module, launch and ctx$" \
		"$GPUMEM_TRACE" -e memory
	refused "'bash' is not the number of a process" "$GPUMEM_TRACE" -p bash
	refused "'x' is not the number of a process" "$GPUMEM_TRACE" -p 1,x
	refused '--pid needs the number of a process$' "$GPUMEM_TRACE" -p ,
	refused '--pid takes up to 64 processes$' "$GPUMEM_TRACE" -p "$(seq 65)"
	refused "'0' is not a number of seconds" "$GPUMEM_TRACE" --summary 0
	refused "'-1' is not a number of seconds" "$GPUMEM_TRACE" -d -1
	for size in 5:1 : '' 1:2:3 x; do
		refused "'$size' is not a size: use MIN, MIN:MAX or :MAX, as in 4K:2M$" "$GPUMEM_TRACE" --size "$size"
	done
	refused "there is no user 'no-such-user'$" "$GPUMEM_TRACE" -u no-such-user
	refused "there is no user '4294967295'" "$GPUMEM_TRACE" -u 4294967295
	refused "there is no way 'x' to attach: there are session, multi and perf$" "$GPUMEM_TRACE" --attach x
	refused '/nowhere/trace.json: No such file or directory' \
		"$GPUMEM_TRACE" --library "$L" --chrome /nowhere/trace.json
}

main "$@"
