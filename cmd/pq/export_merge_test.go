package main

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// list is a list of items whose letters are their times, in upper case those of
// priority 0, in lower case those of priority 1. A ! is an error.
func list(text string) iter.Seq2[client.Listed, error] {
	return func(yield func(client.Listed, error) bool) {
		for _, c := range text {
			if c == '!' {
				yield(client.Listed{}, errors.New("failed"))
				return
			}
			item := client.Listed{ID: string(c), Pushed: time.Unix(int64(c|0x20), 0)}
			if c >= 'a' {
				item.Priority = 1
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

func TestMerged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ lists, want string }{
		{"", ""},
		{"ABab", "ABab"},
		{"ACac BDbd", "ABCDabcd"},
		{" Bb Aa  ", "ABab"},
		{"abc A", "Aabc"},
		{"Aa! Bb", "ABa!"},
		{"Aa !", "!"},
		{"! Aa", "!"},
	} {
		var lists []iter.Seq2[client.Listed, error]
		for text := range strings.SplitSeq(tc.lists, " ") {
			lists = append(lists, list(text))
		}
		got := ""
		for item, err := range merged(lists) {
			if err != nil {
				got += "!"
				continue
			}
			got += item.ID
		}
		if got != tc.want {
			t.Errorf("%s merged is %s, expected %s", tc.lists, got, tc.want)
		}
		for range merged(lists) {
			break // which must not go on
		}
	}
}
