// Package top is pq top: a model without clock and connection, what it asks for, its views, and the
// terminal that shows them.
package top
