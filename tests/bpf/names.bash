#!/bin/bash
# Names that traced programs choose: they reach a terminal as text and as nothing else.
. "${BASH_SOURCE%/*}/lib.bash"

# A program, and a function, whose names would colour the screen, ring its bell, set its
# title, and look like lines of the tool. Letters that are not ASCII are only letters.
program=$'\e[31mX\nY\a\xc2\x9bé'
function="'\\x1b]0;pwn\\x07\"\\xff\\x7f\\nzz\\xc3\\xa9\\xe2\\x80\\xae"
calls="$prepare
cuMemAlloc_v2 &a 4096
cuModuleGetFunction &f 0 $function"

# named OPTION...: that program under the tool.
named()
{
	cp "$C" "$T/$program"
	C=$T/$program trace "$@" <<<"$calls"
}

# harmless FILE: nothing in it but text and ends of lines.
harmless()
{
	! LC_ALL=C grep -aqP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' "$1" ||
		fail "$1 is more than text:" "$(cat -v "$1")"
	iconv -f UTF-8 -t UTF-8 "$1" >"$T/utf8" || fail "$1 is not UTF-8:" "$(cat -v "$1")"
}

shown='\x1b[31mX\x0aY\x07\xc2\x9bé'

test_lines_have_names_without_their_escapes()
{
	named
	harmless "$T/out"
	# a heading, five calls, the end of the process
	is "$(wc -l <"$T/out")" 7
	is "$(grep -cF " $shown " "$T/out")" 6
	like "$(grep cuModuleGetFunction "$T/out")" ' name=\\x1b\]0;pwn\\x07"\\xff\\x7f\\x0azzé\\xe2\\x80\\xae$'
}

test_tables_have_names_without_their_escapes()
{
	local mode
	for mode in --top --summary; do
		named "$mode"
		harmless "$T/out"
		is "$(grep -cF " $shown " "$T/out")" 1
	done
}

test_leaks_have_names_without_their_escapes()
{
	named --leaks
	harmless "$T/out"
	like "$(sed -n 1p "$T/out")" '^process [0-9]+ \(\\x1b\[31mX\\x0aY\\x07\\xc2\\x9bé\) ended'
	is "$(wc -l <"$T/out")" 3
}

test_stacks_have_names_without_their_escapes()
{
	(
		eventually "grep -q cuMemFree_v2 '$T/out'"
		touch "$T/read"
	) &
	# (the kernel writes an end of line in the name of a file as \012)
	program=${program/$'\n'/}
	cp "$C" "$T/$program"
	C=$T/$program trace -s -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemFree_v2 \$a
		wait $T/read
	EOF
	harmless "$T/out"
	like "$(grep -m1 caller_call "$T/out")" '^ +caller_call\+0x[0-9a-f]+ \(\\x1b\[31mXY\\x07\\xc2\\x9bé\) caller\.c:'
}

test_columns_stand_below_each_other_whatever_the_letters()
{
	cp "$C" "$T/éé"
	C=$T/éé trace -e mem <<<"$calls"
	like "$(grep cuMemAlloc "$T/out")" ' éé {14}cuMemAlloc_v2 '
}

test_libraries_have_names_without_their_escapes()
{
	local at=$T/$'\e[31m\a'
	mkdir "$at"
	cp "$L" "$at/libcuda.so.1"
	"$GPUMEM_TRACE" -v --library "$at/libcuda.so.1" -d 0.01 >"$T/out" 2>"$T/err"
	harmless "$T/err"
	like "$(<"$T/err")" 'probing .*/\\x1b\[31m\\x07/libcuda.so.1'
	"$GPUMEM_TRACE" --list --library "$at/libcuda.so.1" >"$T/out"
	harmless "$T/out"
	"$GPUMEM_TRACE" --library "$at/none.so" 2>"$T/err" && fail 'there is no such library'
	harmless "$T/err"
}

main "$@"
