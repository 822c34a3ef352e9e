package main

import (
	"strings"

	"github.com/chaintrail/chaintrail/audit/verify"
)

// sealedHash is the hash of an event in SQL.
const sealedHash = "SHA256(concat(char(0), raw))"

// change edits columns of rows; a key column cannot be edited, so that such rows are made anew.
func change(table, set, where string) []string {
	return []string{"ALTER TABLE " + table + " UPDATE " + set + " WHERE " + where}
}

func remove(table, where string) []string {
	return []string{"ALTER TABLE " + table + " DELETE WHERE " + where}
}

// again inserts rows once more, with some columns replaced.
func again(table, replace, where string) []string {
	return []string{"INSERT INTO " + table + replaced(table, replace, where)}
}

// replaced selects rows with some columns replaced. Inside, so that conditions mean the columns as they were.
func replaced(table, replace, where string) string {
	return " SELECT * " + replace + " FROM (SELECT * FROM " + table + " WHERE " + where + ")"
}

// moved replaces rows by others with some columns replaced, key columns too.
func moved(table, replace, where string) []string {
	return []string{
		"CREATE TABLE moved AS " + table, "INSERT INTO moved" + replaced(table, replace, where),
		"ALTER TABLE " + table + " DELETE WHERE " + where, "INSERT INTO " + table + " SELECT * FROM moved",
	}
}

func cases() []tamper {
	list := []tamper{{name: "untouched", where: "-"}}
	list = append(list, eventCases()...)
	list = append(list, removalCases()...)
	list = append(list, projectionCases()...)
	list = append(list, itemCases()...)
	return append(list, ledgerCases()...)
}

// eventCases change sealed events and their columns.
func eventCases() []tamper {
	const outcome = "position = {outcome}"
	edited := "raw = replaceOne(raw, '\"outcome\":\"allowed\"', '\"outcome\":\"denied\"')"
	list := []tamper{
		{name: "sealed bytes edited", want: verify.CheckHash, sql: change("events", edited, outcome)},
		{name: "sealed bytes and hash edited", want: verify.CheckLeaf, sql: append(change("events", edited, outcome), change("events", "hash = "+sealedHash, outcome)...)},
		{name: "hash edited", want: verify.CheckHash, column: "hash", sql: change("events", "hash = reverse(hash)", outcome)},
		{name: "sealed bytes cut", want: verify.CheckDecode, column: "raw", sql: change("events", "raw = substring(raw, 1, length(raw) - 1)", outcome)},
		{name: "sealed bytes replaced by garbage, with its hash", want: verify.CheckDecode, column: "raw", sql: append(change("events", "raw = 'x'", outcome), change("events", "hash = "+sealedHash, outcome)...)},
		{name: "two events swapped", want: verify.CheckLeaf, sql: swapped("{outcome}", "{request}")},
		{name: "event with a number that is taken", want: verify.CheckFork, column: "seq", sql: again("events", "REPLACE ({behind} AS position, {next_leaf} AS leaf)", outcome)},
		{name: "event of an unknown writer behind the end", want: verify.CheckWriter, sql: forged()},
		{name: "row of an event doubled", want: verify.CheckRowDouble, sql: again("events", "", outcome)},
		{name: "event moved behind the end", want: verify.CheckRowMissing, sql: moved("events", "REPLACE ({behind} AS position)", outcome)},
	}
	for _, column := range []struct{ name, set string }{
		{"kind", "kind = 'admin'"},
		{"tenant", "tenant = 'other'"},
		{"time", "time = time + 1"},
		{"seq", "seq = seq + 1"},
		{"writer", "writer = generateUUIDv4()"},
		{"exchange_id", "exchange_id = generateUUIDv4()"},
		{"event_id", "event_id = generateUUIDv4()"},
		{"leaf", "leaf = leaf + 1"},
		{"shard", "shard = 7"},
	} {
		list = append(list, tamper{
			name: "column " + column.name, want: verify.CheckColumn, column: column.name, sql: change("events", column.set, outcome),
		})
	}
	for i := range list {
		list[i].where = "events"
	}
	return list
}

// swapped lets two events change places, with their leaves.
func swapped(a, b string) []string {
	return []string{
		"CREATE TABLE moved AS events",
		"INSERT INTO moved" + replaced("events", "REPLACE ("+b+" AS position, (SELECT e.leaf FROM events AS e WHERE e.position = "+b+") AS leaf)", "position = "+a),
		"INSERT INTO moved" + replaced("events", "REPLACE ("+a+" AS position, (SELECT e.leaf FROM events AS e WHERE e.position = "+a+") AS leaf)", "position = "+b),
		"ALTER TABLE events DELETE WHERE position IN (" + a + ", " + b + ")",
		"INSERT INTO events SELECT * FROM moved",
	}
}

// forged is an event that looks like one, of a writer that nobody opened.
func forged() []string {
	const writer = "00000000-0000-7000-8000-000000000001"
	return []string{
		"CREATE TABLE moved AS events",
		"INSERT INTO moved" + replaced("events", "REPLACE ({behind} AS position, {next_leaf} AS leaf, toUUID('"+writer+"') AS writer, 1 AS seq,"+
			" replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(raw, '\"writer\":\"[^\"]*\"', '\"writer\":\""+writer+"\"'), '\"seq\":[0-9]+', '\"seq\":1'),"+
			" '\"prev_hash\":\"[^\"]*\"', '\"prev_hash\":\""+strings.Repeat("0", 64)+"\"') AS raw)", "position = {request}"),
		"ALTER TABLE moved UPDATE hash = " + sealedHash + " WHERE 1",
		"INSERT INTO events SELECT * FROM moved",
	}
}

// removalCases take events away.
func removalCases() []tamper {
	list := []tamper{
		{name: "one event removed", want: verify.CheckRowMissing, sql: remove("events", "position = {outcome}")},
		{name: "an exchange removed, projections too", want: verify.CheckRowMissing, sql: exchangeRemoved()},
		{name: "tail cut", want: verify.CheckCutTail, sql: remove("events", "position > {last} - 9")},
		{name: "everything removed", want: verify.CheckCutTail, sql: remove("events", "1")},
		{name: "a checkpoint removed", want: verify.CheckNumbering, sql: remove("events", "position = {checkpoint}")},
		{name: "the close of a writer removed", want: verify.CheckRowMissing, sql: remove("events", "position = {close}")},
		{name: "a writer removed", want: verify.CheckWriter, sql: remove("events", "writer = '{first_writer}'")},
		{name: "the declaration of a death removed", want: verify.CheckNumbering, sql: remove("events", "position = {adopted}")},
	}
	for i := range list {
		list[i].where = "events"
	}
	return list
}

func exchangeRemoved() []string {
	const of = "exchange_id = (SELECT exchange_id FROM default.events WHERE position = {outcome})"
	var all []string
	for _, table := range []string{"events", "interceptions", "invocations", "open_items", "bodies"} {
		all = append(all, remove(table, of)...)
	}
	return all
}

// projectionCases change the tables that show events in columns.
func projectionCases() []tamper {
	const at = "position = {outcome}"
	var list []tamper
	in := func(table string, cases ...tamper) {
		for _, c := range cases {
			c.where = table
			list = append(list, c)
		}
	}
	in("interceptions",
		tamper{name: "denied made allowed", want: verify.CheckColumn, column: "outcome", sql: change("interceptions", "outcome = 'allowed'", "position = {denied}")},
		tamper{name: "another principal", want: verify.CheckColumn, column: "principal_ref", sql: change("interceptions", "principal_ref = 'somebody'", at)},
		tamper{name: "another tool", want: verify.CheckColumn, column: "target", sql: change("interceptions", "target = 'other'", at)},
		tamper{name: "another time", want: verify.CheckColumn, column: "time", sql: moved("interceptions", "REPLACE (time - 60 AS time)", at)},
		tamper{name: "another tenant", want: verify.CheckColumn, column: "tenant", sql: moved("interceptions", "REPLACE ('other' AS tenant)", at)},
		tamper{name: "another plan", want: verify.CheckColumn, column: "plan_digest", sql: change("interceptions", "plan_digest = reverse(plan_digest)", at)},
		tamper{name: "another time of publication", want: verify.CheckColumn, column: "published", sql: moved("interceptions", "REPLACE (published + 1 AS published)", at)},
		tamper{name: "row removed", want: verify.CheckRowMissing, sql: remove("interceptions", at)},
		tamper{name: "row doubled", want: verify.CheckRowDouble, sql: again("interceptions", "", at)},
		tamper{name: "row of nothing", want: verify.CheckRowForeign, sql: again("interceptions", "REPLACE ({behind} AS position)", at)},
		tamper{name: "row in a stream of nothing", want: verify.CheckRowForeign, sql: again("interceptions", "REPLACE ('CHAINTRAIL_9' AS stream)", at)},
	)
	in("invocations",
		tamper{name: "invalid made valid", want: verify.CheckColumn, column: "valid", sql: change("invocations", "valid = true", "position = {checked} AND valid = false")},
		tamper{name: "unknown made known", want: verify.CheckColumn, column: "modified", sql: change("invocations", "modified = true", "position = {checked} AND valid = false")},
		tamper{name: "another interceptor", want: verify.CheckColumn, column: "interceptor", sql: moved("invocations", "REPLACE ('other' AS interceptor)", "position = {checked} AND valid = false")},
		tamper{name: "row removed", want: verify.CheckRowMissing, sql: remove("invocations", "position = {checked}")},
		tamper{name: "result of deferred work removed", want: verify.CheckRowMissing, sql: remove("invocations", "position = {deferred}")},
		tamper{name: "row of nothing", want: verify.CheckRowForeign, sql: again("invocations", "REPLACE ({close} AS position)", "position = {checked}")},
	)
	in("plans",
		tamper{name: "another plan text", want: verify.CheckColumn, column: "plan", sql: change("plans", "plan = concat(plan, ' ')", "position = {plan}")},
		tamper{name: "row removed", want: verify.CheckRowMissing, sql: remove("plans", "position = {plan}")},
	)
	return list
}

// itemCases change what lies beside the sealed events.
func itemCases() []tamper {
	const body, context = "event_id = '{body}'", "event_id = '{context}' AND role = 'context'"
	list := []tamper{
		{name: "body edited", where: "bodies", want: verify.CheckItem, sql: change("bodies", "data = concat(data, ' ')", body)},
		{name: "salt edited", where: "bodies", want: verify.CheckItem, sql: change("bodies", "salt = reverse(salt)", body)},
		{name: "policy edited", where: "bodies", want: verify.CheckColumn, column: "keep", sql: change("bodies", "keep = 'digest'", body)},
		{name: "body removed", where: "bodies", want: verify.CheckItemMissing, sql: remove("bodies", body)},
		{name: "body moved to another time", where: "bodies", want: verify.CheckColumn, column: "time", sql: moved("bodies", "REPLACE (time - 3600 AS time)", body)},
		{name: "body doubled", where: "bodies", want: verify.CheckColumn, column: "part", sql: again("bodies", "", body)},
		{name: "body of nothing", where: "bodies", want: verify.CheckRowForeign, sql: again("bodies", "REPLACE (generateUUIDv4() AS event_id)", body)},
		{name: "body that its event does not name", where: "bodies", want: verify.CheckRowForeign, sql: again("bodies", "REPLACE (9 AS idx)", body)},
		{name: "context edited", where: "open_items", want: verify.CheckItem, sql: change("open_items", "data = replaceOne(data, ':', ' :')", context)},
		{name: "column of a context edited", where: "open_items", want: verify.CheckColumn, column: "target", sql: change("open_items", "target = 'other'", context)},
	}
	return list
}
