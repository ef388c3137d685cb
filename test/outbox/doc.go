// Package outbox relays outboxes of real databases to real brokers and tables by the real
// program, while one after the other is killed.
//
// PostgreSQL by its log and by polling, and MariaDB by polling, at the same time.
//
// A shop (shop_test.go) writes orders and events in transactions that are rolled back,
// have savepoints, overlap and end in another order than they began; it keeps a journal in
// the same transactions, which tells what is true. What is compared is every row: of the
// topic as a reader with isolation read_committed sees it, and of the table.
package outbox
