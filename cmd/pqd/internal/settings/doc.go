// Package settings is what pqd reads from its environment. Each setting has a type that says what was
// expected. Load also finds settings that contradict each other, before anything starts.
package settings
