// What was done in a box, step by step; also when the box does not run.
import { useBox } from '../box';
import { Steps } from '../steps';

export default () => <div class="overview"><Steps box={useBox().id} /></div>;
