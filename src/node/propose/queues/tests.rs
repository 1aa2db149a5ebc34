//! When the packer waits, for whom, and that an entry keeps its bounds.

use super::*;

fn waiting(bytes: usize) -> Waiting {
    let (reply, _) = oneshot::channel();
    Waiting { command: vec![0; bytes], term: 1, reply }
}

fn queues() -> (mpsc::Sender<Waiting>, mpsc::Sender<Waiting>, Queues) {
    let ((calls, calling), (work, working)) = (mpsc::channel(1000), mpsc::channel(10));
    (calls, work, Queues::new(calling, working))
}

fn batch(commands: usize) -> Batch {
    let mut batch = Batch::default();
    (0..commands).for_each(|_| batch.add(waiting(1)));
    batch
}

#[test]
fn those_who_were_answered_together_are_waited_for_while_more_of_them_come() {
    let flights = Flights::default();
    assert_eq!(flights.judge(&batch(1), 1), Verdict::Go);
    flights.depart(10);
    flights.land(10);
    assert_eq!(flights.judge(&batch(9), 0), Verdict::Look);
    assert_eq!(flights.judge(&batch(10), 0), Verdict::Go);
    assert_eq!(flights.judge(&batch(1), IDLE_LOOKS_MAX), Verdict::Go);
    assert_eq!(flights.judge(&batch(COMMANDS_PER_ENTRY_MAX), 0), Verdict::Go);
}

#[test]
fn an_entry_follows_another_one_only_if_that_is_small_or_it_is_much_larger() {
    let flights = Flights::default();
    flights.depart(FEW_COMMANDS);
    assert_eq!(flights.judge(&batch(1), 1), Verdict::Go);
    flights.land(FEW_COMMANDS);
    flights.depart(10);
    assert_eq!(flights.judge(&batch(19), IDLE_LOOKS_MAX), Verdict::Wait);
    assert_eq!(flights.judge(&batch(20), 0), Verdict::Go);
    flights.depart(20);
    assert_eq!(flights.judge(&batch(COMMANDS_PER_ENTRY_MAX), 0), Verdict::Wait);
}

#[tokio::test]
async fn a_lone_caller_waits_for_nobody() {
    let (calls, _work, mut queues) = queues();
    let flights = Flights::default();
    for _ in 0..3 {
        calls.try_send(waiting(9)).ok().unwrap();
        assert_eq!(queues.next(&flights).await.unwrap().len(), 1);
        flights.depart(1);
        flights.land(1);
    }
}

#[tokio::test]
async fn what_waits_for_a_landing_goes_with_it_and_with_what_came_meanwhile() {
    let (calls, _work, mut queues) = queues();
    let flights = std::sync::Arc::new(Flights::default());
    flights.depart(10);
    (0..5).for_each(|_| calls.try_send(waiting(9)).ok().unwrap());
    let landing = std::sync::Arc::clone(&flights);
    tokio::spawn(async move {
        for _ in 0..20 {
            yield_now().await;
        }
        calls.try_send(waiting(9)).ok().unwrap();
        landing.land(10);
        for _ in 0..4 {
            yield_now().await;
            calls.try_send(waiting(9)).ok().unwrap();
        }
    });
    assert_eq!(queues.next(&flights).await.unwrap().len(), 10);
}

#[tokio::test]
async fn an_entry_keeps_its_bounds() {
    let (calls, work, mut queues) = queues();
    let flights = Flights::default();
    for bytes in [ENTRY_BYTES_WANTED - 9, 9, 1, 2 * ENTRY_BYTES_WANTED, 1] {
        calls.try_send(waiting(bytes)).ok().unwrap();
    }
    (0..2).for_each(|_| work.try_send(waiting(1)).ok().unwrap());
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(queues.next(&flights).await.unwrap().len());
    }
    // Work comes along only where there is room for it, one step an entry.
    assert_eq!(sizes, [2, 1, 1, 2]);
    (0..300).for_each(|_| calls.try_send(waiting(1)).ok().unwrap());
    assert_eq!(queues.next(&flights).await.unwrap().len(), COMMANDS_PER_ENTRY_MAX);
    drop((calls, work));
    assert!(queues.next(&flights).await.is_some());
    assert!(queues.next(&flights).await.is_none());
}
