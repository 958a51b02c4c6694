// Package settings reads pqd's settings from its environment. Each setting has a type whose errors say what was
// expected. Load also finds settings that contradict each other, before anything starts.
package settings
