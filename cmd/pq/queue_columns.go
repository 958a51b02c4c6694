package main

import (
	"slices"

	"github.com/pqbridge/pqbridge/client"
)

// queueColumn is a column of a table of queues.
type queueColumn struct {
	gridColumn
	text func(f *figures) string
}

// queueColumns are all there are. The last ones to go in a narrow terminal are those with a
// low rank.
var queueColumns = []queueColumn{
	{gridColumn{key: "name", title: "QUEUE", wide: true}, func(f *figures) string { return f.Queue }},
	{gridColumn{key: "ready", title: "READY", number: true}, func(f *figures) string { return thousands(f.Ready) }},
	{gridColumn{key: "leased", title: "LEASED", number: true, rank: 2}, func(f *figures) string { return thousands(f.Leased) }},
	{gridColumn{key: "delayed", title: "DELAYED", number: true, rank: 3}, func(f *figures) string { return thousands(f.Delayed) }},
	{gridColumn{key: "dead", title: "DEAD", number: true, rank: 1}, func(f *figures) string { return deadLettersOf(f.dead) }},
	{gridColumn{key: "size", title: "SIZE", number: true, rank: 5}, func(f *figures) string { return size(f.Bytes) }},
	{gridColumn{key: "oldest", title: "OLDEST", number: true, rank: 2}, (*figures).oldest},
	{gridColumn{key: "waiting", title: "WAITING", number: true, rank: 5}, func(f *figures) string { return thousands(int64(f.Waiting)) }},
	{gridColumn{key: "push", title: "PUSH/S", number: true, rank: 4}, func(f *figures) string { return rate(f.Rates.Push) }},
	{gridColumn{key: "pop", title: "POP/S", number: true, rank: 4}, func(f *figures) string { return rate(f.Rates.Pop) }},
	{gridColumn{key: "settle", title: "SETTLE/S", number: true, rank: 6}, func(f *figures) string { return rate(f.Rates.Settle) }},
	{gridColumn{key: "state", rank: 1}, func(f *figures) string { return paused(f.Info) }},
}

// queueColumnsBut are all columns but some.
func queueColumnsBut(keys ...string) (some []queueColumn) {
	for _, c := range queueColumns {
		if !slices.Contains(keys, c.key) {
			some = append(some, c)
		}
	}
	return some
}

// queueLines are the lines of a table of queues.
func queueLines(all []*figures, shown []queueColumn) []string {
	rows := make([][]string, 1+len(all))
	for _, c := range shown {
		rows[0] = append(rows[0], c.title)
		for i, f := range all {
			rows[1+i] = append(rows[1+i], c.text(f))
		}
	}
	return columns(rows)
}

// oldest writes the age of the oldest ready item, with + if there may be an older one.
func (f *figures) oldest() string {
	age := oldestOf(f.Ready, f.age, false)
	if f.Ready > 0 && f.OldestAtLeast {
		age += "+"
	}
	return age
}

func paused(i *client.Info) string {
	if i.Paused {
		return "paused"
	}
	return ""
}
