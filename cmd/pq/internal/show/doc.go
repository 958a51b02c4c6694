// Package show writes numbers, times, tables and items for people.
package show
