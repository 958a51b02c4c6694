// Package doctor is pq doctor: it tries what a user does, looks at bridges, the store and queues, and says of
// each finding what to do about it.
package doctor
